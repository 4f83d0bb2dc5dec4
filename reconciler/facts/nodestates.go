package facts

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// NodeCondition is the state of a node none of whose fresh reports has the sandbox.
type NodeCondition int

const (
	NotReporting NodeCondition = iota // without a fresh report
	Reporting                         // with a fresh report
	ProvenDead
	NodeObjectMissing
)

// NodeCondition is the condition of a node by its report and its Node object. A report that may be of another machine
// does not prove that a sandbox is absent.
func (f *Facts) NodeCondition(name string) NodeCondition {
	switch {
	case f.ProvesAbsence(name):
		return Reporting
	case f.IsDead(name):
		return ProvenDead
	case f.IsMissing(name) && f.knowsWhoReports():
		return NodeObjectMissing
	}
	return NotReporting
}

// IsDeadOrMissing reports whether a node is proven dead or has no Node object, and no fresh report proves otherwise.
func (f *Facts) IsDeadOrMissing(node string) bool {
	c := f.NodeCondition(node)
	return node != "" && (c == ProvenDead || c == NodeObjectMissing)
}

// findAgentNodes are the nodes that may run a sandbox and so must report, but for dead ones: those that the policy
// selects, those that have a report, and those that had to report in an earlier observation. Such a node leaves by
// evidence only: its Node object was missing for NodeQuarantine, or the policy excludes it by a label that is there. If
// nodes are unknown, those that reports and pods name are used, and NodesUnknown says that there may be others.
func (f *Facts) findAgentNodes() []string {
	expected := f.doubts.Expected()
	if !f.hasNodes {
		return SortedUnique(slices.AppendSeq(slices.Collect(maps.Keys(expected)), maps.Keys(f.nodeNames)))
	}
	var nodes []string
	selects := f.policy.Selector()
	for name, n := range f.nodes {
		isSelected := selects(n)
		f.selectsNodes = f.selectsNodes || isSelected
		if !f.IsDead(name) && (isSelected || f.byNode[name] != nil) {
			nodes = append(nodes, name)
		}
	}
	f.selectsNodes = f.selectsNodes || len(f.nodes) == 0
	f.missingNodes = map[string]time.Time{}
	for name, joined := range expected {
		if n := f.nodes[name]; n == nil || !f.IsDead(name) && !f.policy.excludes(n) {
			nodes = append(nodes, name)
		}
		if f.nodes[name] == nil {
			f.missingNodes[name] = joined
		}
	}
	return SortedUnique(nodes)
}

// NodesUnknown is why it is not known which nodes could run a sandbox, "" if it is known.
func (f *Facts) NodesUnknown() string {
	switch {
	case !f.hasNodes:
		return "nodes: " + f.o.Nodes.Why()
	case !f.selectsNodes:
		return fmt.Sprintf("--agent-nodes selects none of %d nodes", len(f.nodes))
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
func (f *Facts) nodeStates() map[string]NodeState {
	states := make(map[string]NodeState, len(f.byNode))
	if !f.hasAgents {
		return states
	}
	for _, n := range f.agentNodes {
		if !f.IsMissing(n) {
			states[n] = NodeNoFreshReport
		}
	}
	for n, r := range f.byNode {
		switch {
		case r.IsFresh(f.now):
			states[n] = NodeFresh
		case f.IsDead(n), f.IsMissing(n):
			states[n] = NodeDeadOrMissing
		default:
			states[n] = NodeNoFreshReport
		}
	}
	return states
}

// DoubtedTaints are the nodes, sorted, whose out-of-service taint a restore of etcd may have brought back.
func (f *Facts) DoubtedTaints() (nodes []string) {
	for name, n := range f.o.Nodes.Or(nil) {
		if n.IsDead() && f.doubts.DoubtsTaint(n) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
