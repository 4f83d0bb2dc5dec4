package judge

import (
	"slices"
	"time"
)

// NodeState is what is known of a node that should have an agent.
type NodeState string

const (
	NodeFresh         NodeState = "Fresh"         // its report may be relied upon
	NodeNoFreshReport NodeState = "NoFreshReport" // it has no report, or one that is not renewed now
	NodeLost          NodeState = "Dead"          // it is proven dead, or its Node object is gone
)

// nodeStates are the nodes that should have an agent, and those that have a
// report, by name; none where there are no agents.
func (x *Index) nodeStates() map[string]NodeState {
	states := make(map[string]NodeState, len(x.byNode))
	if !x.inUse {
		return states
	}
	for _, n := range x.agentNodes {
		states[n] = NodeNoFreshReport
	}
	for n, r := range x.byNode {
		switch {
		case x.isFresh(r):
			states[n] = NodeFresh
		case x.dead(n), x.missing(n):
			states[n] = NodeLost
		default:
			states[n] = NodeNoFreshReport
		}
	}
	return states
}

// NotRenewedSince are the nodes, sorted, that are not proven dead and whose reports were not
// renewed since every ADD and DEL has ended that was under way when a fence came to stand.
func (j *Judgement) NotRenewedSince(fenced time.Time) (nodes []string) {
	renewed := map[string]bool{}
	for _, r := range j.Observation.Reports {
		renewed[r.Name] = !r.Renewed.Before(fenced.Add(DELTimeout))
	}
	for node, state := range j.Nodes {
		if state != NodeLost && !renewed[node] {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
