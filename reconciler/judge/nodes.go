package judge

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// nodeSet are nodes that could run a sandbox, with what follows where no fresh report has it.
type nodeSet struct {
	Sandbox       Sandbox
	Nodes         []string // that could run the sandbox, sorted
	WithoutReport []string // those of them without a fresh report
	gone          []string // those of them that are dead or missing
	MissingNode   bool     // it rests on a Node object being gone
	Unreachable   bool     // every node without a fresh report, or without agents the node in question, is not Ready
	// UnreachableTimedOut: and has been so for longer than the operator allows for.
	UnreachableTimedOut bool
}

// nodeCondition is what is known of a node that no fresh report of has the sandbox.
type nodeCondition int

const (
	notReporting nodeCondition = iota // nothing
	reporting                         // a fresh report does not have the sandbox
	provenDead
	nodeObjectMissing
)

// newNodeSet judges nodes by what is known of each.
func (x *Index) newNodeSet(names []string, conditionOf func(string) nodeCondition) *nodeSet {
	n := &nodeSet{Nodes: names}
	var count [nodeObjectMissing + 1]int
	for _, name := range names {
		c := conditionOf(name)
		count[c]++
		switch c {
		case notReporting:
			n.WithoutReport = append(n.WithoutReport, name)
		case provenDead, nodeObjectMissing:
			n.gone = append(n.gone, name)
		}
	}
	without := n.WithoutReport
	switch {
	case len(names) > 0 && count[provenDead] == len(names):
		n.Sandbox = NodeDead
	case len(names) > 0 && count[provenDead]+count[nodeObjectMissing] == len(names):
		n.Sandbox = NodeMissing
	case !x.inUse:
		n.Sandbox = NoSource
		// Without agents one node that is not Ready is enough to hold what it
		// may run: its kubelet cannot say that the sandbox is gone.
		without = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !x.notReady(name) || len(names) > 1 && x.dead(name) })
	case len(names) == 0 || count[notReporting] > 0:
		n.Sandbox = NoFreshReport
	case count[nodeObjectMissing] > 0:
		n.Sandbox = NodeMissing
	case count[provenDead] > 0:
		n.Sandbox = NodeDead
	default:
		n.Sandbox = Absent
	}
	n.MissingNode = n.Sandbox == NodeMissing
	n.Unreachable = len(without) > 0 && !slices.ContainsFunc(without, func(name string) bool { return !x.notReady(name) })
	n.UnreachableTimedOut = n.Unreachable && x.policy.UnreachableNodeTimeout > 0 && !slices.ContainsFunc(without, func(name string) bool {
		since := x.o.Nodes[name].NotReadySince
		return since.IsZero() || x.now.Sub(since) < x.policy.UnreachableNodeTimeout
	})
	return n
}

// nodeCondition is what is known of a node by its report and its Node object.
func (x *Index) nodeCondition(name string) nodeCondition {
	switch {
	case x.hasFreshReport(name) && !x.isOfAnotherMachine(x.byNode[name]): // of another machine it says what it lists, and no more
		return reporting
	case x.dead(name):
		return provenDead
	case x.missing(name):
		return nodeObjectMissing
	}
	return notReporting
}

// nodeConditionFor is what is known of a node as far as the item goes: where a report of the node has the ID, that report
// decides, so that a fresh one counts even if the node is out of service, and one of a machine that was replaced is of a
// node that is gone. The pod may run again on a node that has booted, in another sandbox, with the same address: its ADD
// replaces the entry, but a restore of etcd may have lost that. The node's next report shows it.
func (x *Index) nodeConditionFor(it *Item, node string) nodeCondition {
	pod := it.evidence.Pod
	mayBeBack := pod != nil && pod.Node == node && pod.Phase != podstate.Finished
	for i := range it.mentions {
		g := &it.mentions[i]
		switch {
		case g.kind == ofGone || g.report.Name != node:
		case x.endedWithNode(g.report) && mayBeBack: // it may be dead all the same
		case x.endedWithNode(g.report):
			return provenDead
		case x.isReplaced(g.report):
			return nodeObjectMissing
		}
	}
	return x.nodeCondition(node)
}

// nodeConditionForLone is what is known of a node for a reservation that stands alone. It names no sandbox, so that no
// node is known to have run it: nodes that are dead, or have been gone for long, only need no report.
func (x *Index) nodeConditionForLone(node string) nodeCondition {
	c, r := x.nodeCondition(node), x.byNode[node]
	switch {
	case c == provenDead, c == nodeObjectMissing && (r == nil || x.expired(r)):
		return reporting
	case c == nodeObjectMissing:
		return notReporting
	}
	return c
}

type nodeSetKey struct {
	names              string // joined by "+", which no node's name has
	andAgents          bool
	isReservationAlone bool
}

// nodeSetOf judges nodes of which no report has the sandbox, with all that should have an agent where andAgents is set.
// Many items share one.
func (x *Index) nodeSetOf(it *Item, names []string, andAgents bool) *nodeSet {
	key := nodeSetKey{strings.Join(names, "+"), andAgents, it.Allocation == nil}
	if n := x.nodeSets[key]; n != nil {
		return n
	}
	if andAgents {
		names = sortedUnique(slices.Concat(x.agentNodes, names))
	}
	if it.Allocation != nil {
		x.nodeSets[key] = x.newNodeSet(names, x.nodeCondition)
		return x.nodeSets[key]
	}
	n := x.newNodeSet(names, x.nodeConditionForLone)
	n.MissingNode = slices.ContainsFunc(names, func(name string) bool {
		return x.nodeCondition(name) == nodeObjectMissing && x.nodeConditionForLone(name) == reporting
	})
	if n.Sandbox == Absent && !slices.ContainsFunc(names, x.hasFreshReport) {
		n.Sandbox = NoFreshReport
	}
	x.nodeSets[key] = n
	return n
}

// couldRun are the nodes that could run the sandbox: those whose last report has the ID, the node of the pod by that
// name, and those of pods that were seen carrying the address. Where no report has it, also the nodes whose slice the
// pool is, by a readable definition; else every node with an agent. Without reports it is the pod's own node, where there
// is a pod. certain reports whether no other node could run it: where a report has the ID, and without agents.
func (x *Index) couldRun(it *Item) (n *nodeSet, certain bool) {
	pod := it.evidence.Pod
	switch {
	case !x.inUse && pod != nil && pod.Node == "":
		return x.nodeSetOf(it, nil, false), true
	case !x.inUse && pod != nil:
		return x.nodeSetOf(it, []string{pod.Node}, false), true
	}
	reported := it.reportedOn()
	all := sortedUnique(append(x.seenOn(it), reported...))
	switch {
	case it.Allocation == nil && pod != nil && x.isGone(pod.Node):
		return x.newNodeSet([]string{pod.Node}, func(string) nodeCondition { return notReporting }), false
	case it.Allocation != nil && len(reported) > 0:
		return x.newNodeSet(all, func(node string) nodeCondition { return x.nodeConditionFor(it, node) }), len(all) == len(reported)
	case it.Allocation != nil && len(it.in.slice) > 0:
		return x.nodeSetOf(it, sortedUnique(append(all, it.in.slice...)), false), false
	}
	return x.nodeSetOf(it, slices.DeleteFunc(all, func(name string) bool {
		_, found := slices.BinarySearch(x.agentNodes, name) // most have one anyway
		return found
	}), true), false
}

// reportedOn are the nodes whose last report has the sandbox.
func (it *Item) reportedOn() (nodes []string) {
	for i := range it.mentions {
		if g := &it.mentions[i]; g.kind != ofGone { // a stale report does not have what it names as gone
			nodes = append(nodes, g.report.Name)
		}
	}
	return sortedUnique(nodes)
}

// seenOn are the nodes of the pod by the owner's name, and of pods that carry the address, or were seen to.
func (x *Index) seenOn(it *Item) []string {
	seen := x.past.Of(it.ID())
	nodes := slices.Concat(seen.RanOn, seen.CarriedOn)
	if pod := it.evidence.Pod; pod != nil && pod.Node != "" {
		nodes = append(nodes, pod.Node)
	}
	for _, addr := range it.addresses() {
		for _, c := range x.podsAt(addr) {
			if it.mayBeOn(c.nad) {
				nodes = append(nodes, c.pod.Node)
			}
		}
	}
	return nodes
}

// isGone reports whether a node is dead or missing, and so is not asked.
func (x *Index) isGone(node string) bool {
	c := x.nodeCondition(node)
	return node != "" && (c == provenDead || c == nodeObjectMissing)
}

// findAgentNodes are all nodes that should have an agent or have a report and are neither dead nor missing; where nothing
// is known of nodes, those that reports and pods name.
func (x *Index) findAgentNodes() (nodes []string) {
	if len(x.o.Nodes) == 0 {
		return slices.Sorted(maps.Keys(x.nodeNames))
	}
	selects := x.policy.Selector()
	for name, n := range x.o.Nodes {
		if !x.dead(name) && (selects(n) || x.byNode[name] != nil) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// NodeState is what is known of a node that should have an agent.
type NodeState string

const (
	NodeFresh         NodeState = "Fresh"         // its report may be relied upon
	NodeNoFreshReport NodeState = "NoFreshReport" // it has no report, or one that is not renewed now
	NodeDeadOrMissing NodeState = "Dead"          // it is proven dead, or its Node object is gone
)

// nodeStates are the nodes that should have an agent, and those that have a report, by name; none where there are no
// agents.
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
		case r.IsFresh(x.now):
			states[n] = NodeFresh
		case x.dead(n), x.missing(n):
			states[n] = NodeDeadOrMissing
		default:
			states[n] = NodeNoFreshReport
		}
	}
	return states
}

// NotRenewedSince are the nodes, sorted, that are not proven dead and whose reports were not renewed since every ADD and
// DEL has ended that was under way when a fence came to stand.
func (j *Judgement) NotRenewedSince(fenced time.Time) (nodes []string) {
	renewed := map[string]bool{}
	for _, r := range j.Observation.Reports {
		renewed[r.Name] = !r.ConfirmedAt.Before(fenced.Add(DELTimeout))
	}
	for node, state := range j.Nodes {
		if state != NodeDeadOrMissing && !renewed[node] {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
