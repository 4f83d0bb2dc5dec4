package judge

import (
	"maps"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// nodeSet are nodes that could run a sandbox, with what follows where no fresh
// report has it.
type nodeSet struct {
	names   []string // sorted
	unheard []string // those of them that nothing fresh is known of
	over    []string // those of them that are dead or missing
	state   Sandbox
	missing bool // the state rests on a Node object being gone
	// unreachable: every unheard node, or without agents one of the nodes, is not
	// Ready; givenUp: and so for longer than the operator allows for.
	unreachable, givenUp bool
}

// fate is what is known of a node that no fresh report of has the sandbox.
type fate int

const (
	unheard fate = iota // nothing
	heard               // a fresh report does not have the sandbox
	dead
	missing
)

// newNodeSet judges nodes by the fate of each.
func (x *Index) newNodeSet(names []string, fateOf func(string) fate) *nodeSet {
	n := &nodeSet{names: names}
	var count [missing + 1]int
	for _, name := range names {
		f := fateOf(name)
		count[f]++
		switch f {
		case unheard:
			n.unheard = append(n.unheard, name)
		case dead, missing:
			n.over = append(n.over, name)
		}
	}
	silent := n.unheard
	switch {
	case len(names) > 0 && count[dead] == len(names):
		n.state = NodeDead
	case len(names) > 0 && count[dead]+count[missing] == len(names):
		n.state = NodeMissing
	case !x.inUse:
		n.state = NoSource
		// Without agents one node that is not Ready is enough to hold what it
		// may run: its kubelet cannot say that the sandbox is gone.
		silent = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !x.notReady(name) || len(names) > 1 && x.dead(name) })
	case len(names) == 0 || count[unheard] > 0:
		n.state = Unheard
	case count[missing] > 0:
		n.state = NodeMissing
	case count[dead] > 0:
		n.state = NodeDead
	default:
		n.state = Absent
	}
	n.missing = n.state == NodeMissing
	n.unreachable, n.givenUp = x.reachability(silent)
	return n
}

// fate is what is known of a node by its report and its Node object.
func (x *Index) fate(name string) fate {
	switch {
	case x.heard(name):
		return heard
	case x.dead(name):
		return dead
	case x.missing(name):
		return missing
	}
	return unheard
}

// nodeSet judges nodes of which no report has the sandbox.
func (x *Index) nodeSet(s *candidate, names []string) *nodeSet {
	if s.alloc != nil {
		return x.newNodeSet(names, x.fate)
	}
	return x.forReservation(names)
}

// forReservation judges nodes for a reservation that stands alone. It names no
// sandbox, so that no node is known to have run it: nodes that are dead, or have
// been gone for long, only do not have to be heard.
func (x *Index) forReservation(names []string) *nodeSet {
	gone := false
	n := x.newNodeSet(names, func(name string) fate {
		switch f := x.fate(name); {
		case f == dead:
			return heard
		case f == missing && (x.byNode[name] == nil || x.lapsed(x.byNode[name])):
			gone = true
			return heard
		case f == missing:
			return unheard
		default:
			return f
		}
	})
	n.missing = gone
	if n.state == Absent && !slices.ContainsFunc(names, x.heard) {
		n.state = Unheard
	}
	return n
}

// single is the nodeSet of one node, of which there are few and asked for often.
func (x *Index) single(s *candidate, name string) *nodeSet {
	return x.nodesAs(s, name, func() []string { return []string{name} })
}

// every is the nodeSet of all nodes with an agent.
func (x *Index) every(s *candidate) *nodeSet {
	n := &x.agents[0]
	if s.alloc == nil {
		n = &x.agents[1]
	}
	if *n == nil {
		*n = x.nodeSet(s, x.agentNodes)
	}
	return *n
}

// everyAnd is every with more nodes, most of which have an agent anyway.
func (x *Index) everyAnd(s *candidate, more []string) *nodeSet {
	more = slices.DeleteFunc(more, func(name string) bool {
		_, found := slices.BinarySearch(x.agentNodes, name)
		return found
	})
	if len(more) == 0 {
		return x.every(s)
	}
	return x.nodesAs(s, "+"+strings.Join(more, "+"), func() []string { return sortedUnique(slices.Concat(x.agentNodes, more)) })
}

// nodesAs is the nodeSet of names under which many ask for the same nodes.
func (x *Index) nodesAs(s *candidate, as string, names func() []string) *nodeSet {
	at := namedNodes{as, s.alloc == nil}
	n := x.nodeSets[at]
	if n == nil {
		n = x.nodeSet(s, names())
		x.nodeSets[at] = n
	}
	return n
}

type namedNodes struct {
	as          string // node names have no "+"
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
		return x.single(s, s.pod.Node), true
	}
	sighted := s.sightedOn()
	all := append(x.seenOn(s), sighted...)
	switch {
	case s.alloc == nil && s.pod != nil && x.over(s.pod.Node):
		return x.newNodeSet([]string{s.pod.Node}, func(string) fate { return unheard }), false
	case s.alloc == nil:
		return x.everyAnd(s, sortedUnique(all)), false
	case len(sighted) > 0:
		all = sortedUnique(all)
		n = x.newNodeSet(all, func(node string) fate { return x.fateFor(s, node) })
		return n, len(all) == len(sighted)
	}
	if len(s.pool.slice) > 0 {
		return x.nodeSet(s, sortedUnique(append(all, s.pool.slice...))), false
	}
	return x.everyAnd(s, sortedUnique(all)), false
}

// sightedOn are the nodes whose last report has the sandbox.
func (s *candidate) sightedOn() (nodes []string) {
	for i := range s.sighted {
		if g := &s.sighted[i]; g.gone == nil { // a stale report does not have what it names as gone
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
	for _, addr := range s.addresses() {
		for _, c := range x.podsAt(addr) {
			if x.mayBeOf(s, c.nad) {
				nodes = append(nodes, c.pod.Node)
			}
		}
	}
	return nodes
}

// over reports whether a node is dead or missing, and so is not heard.
func (x *Index) over(node string) bool {
	if node == "" {
		return false
	}
	f := x.fate(node)
	return f == dead || f == missing
}

// sliceNodes are the nodes whose slice a pool is by a definition that can be read
// and cuts its range into slices of that size; a name alone says nothing, and where
// it may as well be another network's none are.
func (x *Index) sliceNodes(p *pool) []string {
	var found []string
	for _, n := range x.slices {
		if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() && x.nodeNames[node] {
			found = append(found, node)
		}
	}
	if len(found) > 0 && x.networkOfItsOwn(p) {
		return nil
	}
	return found
}

// networkOfItsOwn reports whether a definition says that the pool is all of a range,
// and no slice.
func (x *Index) networkOfItsOwn(p *pool) bool {
	for _, nad := range x.nads {
		if slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return !n.Slices && n.Maps(p.Pool, p.networks) }) {
			return true
		}
	}
	return false
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
		if !n.Dead() && (selects(n) || x.byNode[name] != nil) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// fateFor is the fate of a node as far as the candidate goes: where a report of the
// node mentions it, that report decides, so that a fresh one counts even if the node
// is out of service, and one of a machine that was replaced is of a node that is gone.
func (x *Index) fateFor(s *candidate, node string) fate {
	for i := range s.sighted {
		g := &s.sighted[i]
		switch {
		case g.gone != nil || g.report.Name != node:
		case x.lost(g.report):
			return dead
		case x.replaced(g.report):
			return missing
		}
	}
	return x.fate(node)
}
