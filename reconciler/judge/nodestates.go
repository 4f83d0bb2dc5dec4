package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// nodeCondition is the state of a node none of whose fresh reports has the sandbox.
type nodeCondition int

const (
	notReporting nodeCondition = iota // without a fresh report
	reporting                         // with a fresh report
	provenDead
	nodeObjectMissing
)

// nodeCondition is the condition of a node by its report and its Node object. A report that may be of another machine
// does not prove that a sandbox is absent.
func (x *Index) nodeCondition(name string) nodeCondition {
	switch {
	case x.provesAbsence(name):
		return reporting
	case x.isDead(name):
		return provenDead
	case x.isMissing(name) && x.knowsWhoReports():
		return nodeObjectMissing
	}
	return notReporting
}

// isDeadOrMissing reports whether a node is proven dead or has no Node object, and no fresh report proves otherwise.
func (x *Index) isDeadOrMissing(node string) bool {
	c := x.nodeCondition(node)
	return node != "" && (c == provenDead || c == nodeObjectMissing)
}

// findAgentNodes are the nodes that may run a sandbox and so must report, but for dead ones: those that the policy
// selects, those that have a report, and those that had to report in an earlier observation. Such a node leaves by
// evidence only: its Node object was missing for NodeQuarantine, or the policy excludes it by a label that is there. If
// nodes are unknown, those that reports and pods name are used, and NodesUnknown says that there may be others.
func (x *Index) findAgentNodes() []string {
	expected := x.doubts.Expected()
	if !x.hasNodes {
		return sortedUnique(slices.AppendSeq(slices.Collect(maps.Keys(expected)), maps.Keys(x.nodeNames)))
	}
	var nodes []string
	selects := x.policy.Selector()
	for name, n := range x.nodes {
		isSelected := selects(n)
		x.selectsNodes = x.selectsNodes || isSelected
		if !x.isDead(name) && (isSelected || x.byNode[name] != nil) {
			nodes = append(nodes, name)
		}
	}
	x.selectsNodes = x.selectsNodes || len(x.nodes) == 0
	x.missingNodes = map[string]time.Time{}
	for name, joined := range expected {
		if n := x.nodes[name]; n == nil || !x.isDead(name) && !x.policy.excludes(n) {
			nodes = append(nodes, name)
		}
		if x.nodes[name] == nil {
			x.missingNodes[name] = joined
		}
	}
	return sortedUnique(nodes)
}

// nodesUnknown is why it is not known which nodes could run a sandbox, "" if it is known.
func (x *Index) nodesUnknown() string {
	switch {
	case !x.hasNodes:
		return "nodes: " + x.o.Nodes.Why()
	case !x.selectsNodes:
		return fmt.Sprintf("--agent-nodes selects none of %d nodes", len(x.nodes))
	}
	return ""
}

// NodeState is the state of a node that should have an agent.
type NodeState string

const (
	NodeFresh         NodeState = "Fresh"         // its report is fresh
	NodeNoFreshReport NodeState = "NoFreshReport" // it has no report, or an expired one
	NodeDeadOrMissing NodeState = "Dead"          // it is proven dead, or has no Node object
)

// nodeStates are the states of the nodes that should have an agent or have a report; empty without agents.
func (x *Index) nodeStates() map[string]NodeState {
	states := make(map[string]NodeState, len(x.byNode))
	if !x.hasAgents {
		return states
	}
	for _, n := range x.agentNodes {
		if !x.isMissing(n) {
			states[n] = NodeNoFreshReport
		}
	}
	for n, r := range x.byNode {
		switch {
		case r.IsFresh(x.now):
			states[n] = NodeFresh
		case x.isDead(n), x.isMissing(n):
			states[n] = NodeDeadOrMissing
		default:
			states[n] = NodeNoFreshReport
		}
	}
	return states
}

// doubtedTaints are the nodes, sorted, whose out-of-service taint a restore of etcd may have brought back.
func (x *Index) doubtedTaints() (nodes []string) {
	for name, n := range x.o.Nodes.Or(nil) {
		if n.IsDead() && x.doubts.DoubtsTaint(n) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
