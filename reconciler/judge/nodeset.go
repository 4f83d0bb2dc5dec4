package judge

import (
	"maps"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// nodeSet are nodes that could run a sandbox, with what follows where no fresh
// report has it.
type nodeSet struct {
	names         []string // sorted
	withoutReport []string // those of them that nothing fresh is known of
	gone          []string // those of them that are dead or missing
	state         Sandbox
	missing       bool // the state rests on a Node object being gone
	// unreachable: every node without a fresh report, or without agents one of the nodes, is not
	// Ready; timedOut: and so for longer than the operator allows for.
	unreachable, timedOut bool
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
	n := &nodeSet{names: names}
	var count [nodeObjectMissing + 1]int
	for _, name := range names {
		f := conditionOf(name)
		count[f]++
		switch f {
		case notReporting:
			n.withoutReport = append(n.withoutReport, name)
		case provenDead, nodeObjectMissing:
			n.gone = append(n.gone, name)
		}
	}
	without := n.withoutReport
	switch {
	case len(names) > 0 && count[provenDead] == len(names):
		n.state = NodeDead
	case len(names) > 0 && count[provenDead]+count[nodeObjectMissing] == len(names):
		n.state = NodeMissing
	case !x.inUse:
		n.state = NoSource
		// Without agents one node that is not Ready is enough to hold what it
		// may run: its kubelet cannot say that the sandbox is gone.
		without = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !x.notReady(name) || len(names) > 1 && x.dead(name) })
	case len(names) == 0 || count[notReporting] > 0:
		n.state = NoFreshReport
	case count[nodeObjectMissing] > 0:
		n.state = NodeMissing
	case count[provenDead] > 0:
		n.state = NodeDead
	default:
		n.state = Absent
	}
	n.missing = n.state == NodeMissing
	n.unreachable, n.timedOut = x.reachability(without)
	return n
}

// nodeCondition is what is known of a node by its report and its Node object.
func (x *Index) nodeCondition(name string) nodeCondition {
	switch {
	case x.hasFreshReport(name) && !x.ofAnotherMachine(x.byNode[name]): // of another it says what it lists, and no more
		return reporting
	case x.dead(name):
		return provenDead
	case x.missing(name):
		return nodeObjectMissing
	}
	return notReporting
}

// nodeSet judges nodes of which no report has the sandbox.
func (x *Index) nodeSet(s *candidate, names []string) *nodeSet {
	if s.alloc != nil {
		return x.newNodeSet(names, x.nodeCondition)
	}
	return x.forReservation(names)
}

// forReservation judges nodes for a reservation that stands alone. It names no
// sandbox, so that no node is known to have run it: nodes that are dead, or have
// been gone for long, only do not have to be heard.
func (x *Index) forReservation(names []string) *nodeSet {
	gone := false
	n := x.newNodeSet(names, func(name string) nodeCondition {
		switch f := x.nodeCondition(name); {
		case f == provenDead:
			return reporting
		case f == nodeObjectMissing && (x.byNode[name] == nil || x.expired(x.byNode[name])):
			gone = true
			return reporting
		case f == nodeObjectMissing:
			return notReporting
		default:
			return f
		}
	})
	n.missing = gone
	if n.state == Absent && !slices.ContainsFunc(names, x.hasFreshReport) {
		n.state = NoFreshReport
	}
	return n
}

// oneNode is the nodeSet of one node, of which there are few and asked for often.
func (x *Index) oneNode(s *candidate, name string) *nodeSet {
	return x.cachedNodeSet(s, name, func() []string { return []string{name} })
}

// agentNodesAnd is the nodeSet of all nodes with an agent and of more, most of which have one anyway.
func (x *Index) agentNodesAnd(s *candidate, more []string) *nodeSet {
	more = slices.DeleteFunc(more, func(name string) bool {
		_, found := slices.BinarySearch(x.agentNodes, name)
		return found
	})
	return x.cachedNodeSet(s, "+"+strings.Join(more, "+"), func() []string { return sortedUnique(slices.Concat(x.agentNodes, more)) })
}

// cachedNodeSet is the nodeSet of names under which many ask for the same nodes.
func (x *Index) cachedNodeSet(s *candidate, as string, names func() []string) *nodeSet {
	at := nodeSetKey{as, s.alloc == nil}
	n := x.nodeSets[at]
	if n == nil {
		n = x.nodeSet(s, names())
		x.nodeSets[at] = n
	}
	return n
}

type nodeSetKey struct {
	name        string // node names have no "+"
	reservation bool
}

// couldRun are the nodes that could run the sandbox: those whose last report has
// the id, the node of the pod by that name, and those of pods that were seen
// carrying the address. Where no report has it, also the nodes whose slice the pool is,
// by a readable definition; else every node with an agent.
// Without reports it is the pod's own node, where there is a pod. certain reports
// whether no other node could run it: where a report has the id, and without agents.
func (x *Index) couldRun(s *candidate) (n *nodeSet, certain bool) {
	if !x.inUse && s.pod != nil {
		if s.pod.Node == "" {
			return x.nodeSet(s, nil), true
		}
		return x.oneNode(s, s.pod.Node), true
	}
	reported := s.reportedOn()
	all := append(x.seenOn(s), reported...)
	switch {
	case s.alloc == nil && s.pod != nil && x.isGone(s.pod.Node):
		return x.newNodeSet([]string{s.pod.Node}, func(string) nodeCondition { return notReporting }), false
	case s.alloc == nil:
		return x.agentNodesAnd(s, sortedUnique(all)), false
	case len(reported) > 0:
		all = sortedUnique(all)
		n = x.newNodeSet(all, func(node string) nodeCondition { return x.nodeConditionFor(s, node) })
		return n, len(all) == len(reported)
	}
	if len(s.pool.slice) > 0 {
		return x.nodeSet(s, sortedUnique(append(all, s.pool.slice...))), false
	}
	return x.agentNodesAnd(s, sortedUnique(all)), false
}

// reportedOn are the nodes whose last report has the sandbox.
func (s *candidate) reportedOn() (nodes []string) {
	for i := range s.reported {
		if g := &s.reported[i]; g.gone == nil { // a stale report does not have what it names as gone
			nodes = append(nodes, g.report.Name)
		}
	}
	return sortedUnique(nodes)
}

// seenOn are the nodes of the pod by the owner's name, and of pods that carry the
// address, or were seen to.
func (x *Index) seenOn(s *candidate) []string {
	seen := x.seen(s)
	nodes := append(seen.ranOn(), seen.CarriedOn...)
	if s.pod != nil && s.pod.Node != "" {
		nodes = append(nodes, s.pod.Node)
	}
	for _, addr := range x.addressesOf(s) {
		for _, c := range x.podsAt(addr) {
			if x.mayBeOf(s, c.nad) {
				nodes = append(nodes, c.pod.Node)
			}
		}
	}
	return nodes
}

// isGone reports whether a node is dead or missing, and so is not heard.
func (x *Index) isGone(node string) bool {
	if node == "" {
		return false
	}
	f := x.nodeCondition(node)
	return f == provenDead || f == nodeObjectMissing
}

// sliceNodes are the nodes whose slice a pool is by a definition that can be read
// and cuts its range into slices of that size; a name alone says nothing, and where
// it may as well be another network's none are.
func (x *Index) sliceNodes(p *pool) []string {
	var found []string
	all := false // by a definition the pool is all of a range
	x.definedFor(p.Pool, func(n ippool.Network) {
		if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() && x.nodeNames[node] {
			found = append(found, node)
		}
		all = all || !n.Slices && n.Maps(p.Pool, p.networks)
	})
	if all {
		return nil
	}
	return sortedUnique(found)
}

// findAgentNodes are all nodes that should have an agent or have a report and are
// neither dead nor missing; where nothing is known of nodes, those that reports and
// pods name.
func (x *Index) findAgentNodes() []string {
	if len(x.o.Nodes) == 0 {
		return slices.Sorted(maps.Keys(x.nodeNames))
	}
	selects := x.policy.Selector()
	var nodes []string
	for name, n := range x.o.Nodes {
		if !x.dead(name) && (selects(n) || x.byNode[name] != nil) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// mayBeBackOn reports whether the candidate's pod may run again on a node that has booted, in
// another sandbox, with the same address: its ADD replaces the entry, but a restore of etcd may
// have lost that. The node's next report tells.
func (s *candidate) mayBeBackOn(node string) bool {
	return s.pod != nil && s.pod.Node == node && s.pod.Phase != podstate.Finished
}

// nodeConditionFor is what is known of a node as far as the candidate goes: where a report of the
// node mentions it, that report decides, so that a fresh one counts even if the node
// is out of service, and one of a machine that was replaced is of a node that is gone.
func (x *Index) nodeConditionFor(s *candidate, node string) nodeCondition {
	for i := range s.reported {
		g := &s.reported[i]
		switch {
		case g.gone != nil || g.report.Name != node:
		case x.endedWithNode(g.report) && s.mayBeBackOn(node): // it may be dead all the same
		case x.endedWithNode(g.report):
			return provenDead
		case x.replaced(g.report):
			return nodeObjectMissing
		}
	}
	return x.nodeCondition(node)
}
