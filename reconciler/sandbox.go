package reconciler

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// Sandbox is what is known of the sandbox of an allocation. The order is the
// order in which evidence counts: the first that holds.
type Sandbox int

const (
	// Ready: a fresh report lists the id as READY.
	Ready Sandbox = iota
	// NotReady: a fresh report lists it as NOTREADY, its network namespace open
	// or not known.
	NotReady
	// Stopped: a fresh report lists it as NOTREADY, its network namespace closed.
	Stopped
	// Attached: a fresh report has it as an attachment that counts.
	Attached
	// Gone: a fresh report names it among its gone.
	Gone
	// NodeDead: every node that could run it is proven dead.
	NodeDead
	// NodeMissing: the Node object of the node that could run it is gone.
	NodeMissing
	// Absent: no report has it, and every node that could run it has a fresh one.
	Absent
	// Unheard: reports are in use, and a node that could run it has no fresh one.
	Unheard
	// NoSource: there are no agents.
	NoSource
)

func (s Sandbox) String() string {
	return [...]string{"Ready", "NotReady", "Stopped", "Attached", "Gone", "NodeDead", "NodeMissing", "Absent", "Unheard", "NoSource"}[s]
}

// subject is what is judged: an allocation, or a reservation that stands alone.
type subject struct {
	pool        *pool              // nil for a reservation
	alloc       *ippool.Allocation // nil for a reservation
	reservation *ippool.Reservation
	owner       ippool.PodRef
	network     string        // of a reservation
	address     netip.Addr    // of a reservation
	pod         *podstate.Pod // nil: none by that name
	sighted     []sighting
}

func (s *subject) podRef() string {
	if s.alloc != nil {
		return s.alloc.PodRef
	}
	return s.reservation.PodRef
}

// nodeSet are nodes that could run a sandbox, with what follows where no fresh
// report has it.
type nodeSet struct {
	names   []string // sorted
	unheard []string // those of them that nothing fresh is known of
	state   Sandbox
	// unreachable: every unheard node, or without agents one of the nodes, is not
	// Ready; givenUp: and so for longer than the operator allows for.
	unreachable, givenUp bool
}

// newNodeSet judges nodes, given which of them are proven dead and which are
// missing.
func (x *index) newNodeSet(names []string, dead, missing func(string) bool) *nodeSet {
	n := &nodeSet{names: names}
	deadOnes, missingOnes := 0, 0
	for _, name := range names {
		switch {
		case dead(name):
			deadOnes++
		case missing(name):
			missingOnes++
		case !x.heard(name):
			n.unheard = append(n.unheard, name)
		}
	}
	silent := n.unheard
	switch {
	case len(names) > 0 && deadOnes == len(names):
		n.state = NodeDead
	case len(names) > 0 && deadOnes+missingOnes == len(names):
		n.state = NodeMissing
	case !x.inUse:
		n.state = NoSource
		// Without agents one node that is not Ready is enough to hold what it
		// may run: its kubelet cannot say that the sandbox is gone.
		silent = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !x.notReady(name) })
	case len(names) == 0 || len(n.unheard) > 0:
		n.state = Unheard
	default:
		n.state = Absent
	}
	n.unreachable, n.givenUp = x.reachability(silent)
	return n
}

// nodeSet judges nodes of which no report has the sandbox. A reservation names
// no sandbox, so no node is known to have run it.
func (x *index) nodeSet(s *subject, names []string) *nodeSet {
	if s.alloc == nil {
		never := func(string) bool { return false }
		return x.newNodeSet(names, never, never)
	}
	return x.newNodeSet(names, x.dead, x.missing)
}

// single is the nodeSet of one node, of which there are few and asked for often.
func (x *index) single(s *subject, name string) *nodeSet {
	at := singleNode{name, s.alloc == nil}
	n := x.singles[at]
	if n == nil {
		n = x.nodeSet(s, []string{name})
		x.singles[at] = n
	}
	return n
}

type singleNode struct {
	name        string
	reservation bool
}

// every is the nodeSet of all nodes with an agent.
func (x *index) every(s *subject) *nodeSet {
	n := &x.agents[0]
	if s.alloc == nil {
		n = &x.agents[1]
	}
	if *n == nil {
		*n = x.nodeSet(s, x.agentNodes)
	}
	return *n
}

// sandbox finds the state of a subject's sandbox, and what it is concluded from.
func (x *index) sandbox(s *subject, e *Evidence) {
	if s.alloc != nil {
		e.ContainerID = s.alloc.ContainerID
	}
	if x.fromFreshReports(s, e) {
		return
	}
	n := x.couldRun(s, e.OnPod)
	e.Sandbox, e.Nodes, e.Unheard, e.Unreachable, e.UnreachableOK = n.state, n.names, n.unheard, n.unreachable, n.givenUp
}

// fromFreshReports takes the strongest word of the reports that may be relied
// upon, and remembers which UID any report gives the id.
func (x *index) fromFreshReports(s *subject, e *Evidence) bool {
	found := false
	for i := range s.sighted {
		g := &s.sighted[i]
		uid := g.uid()
		state, ok := x.stateOf(g)
		if !ok {
			if e.SandboxUID == "" {
				e.SandboxUID = uid
			}
			continue
		}
		better := !found || state < e.Sandbox ||
			state == e.Sandbox && s.pod != nil && uid == s.pod.RuntimeUID // a reservation may be of several
		if better {
			e.Sandbox, e.SandboxUID, e.Nodes, found = state, uid, g.report.node, true
			if e.ContainerID == "" {
				e.ContainerID = g.containerID()
			}
		}
	}
	return found
}

// stateOf is what a fresh report's mention proves; ok is false where it proves
// nothing, or the report is not fresh.
func (x *index) stateOf(g *sighting) (state Sandbox, ok bool) {
	switch {
	case !g.report.fresh:
	case g.box != nil && g.box.State == v1alpha1.SandboxReady:
		return Ready, true
	case g.box != nil && g.box.State == v1alpha1.SandboxNotReady && podstate.Closed(g.box.NetworkClosed):
		return Stopped, true
	case g.box != nil:
		return NotReady, true
	case g.att != nil && g.report.Counts(g.att, x.now):
		return Attached, true
	case g.gone != nil:
		return Gone, true
	}
	return 0, false
}

func (g *sighting) uid() string {
	switch {
	case g.box != nil:
		return g.box.UID
	case g.att != nil:
		return g.att.UID
	}
	return g.gone.UID
}

func (g *sighting) containerID() string {
	switch {
	case g.box != nil:
		return g.box.ID
	case g.att != nil:
		return g.att.ID
	}
	return g.gone.ID
}

// couldRun are the nodes that could run the sandbox: the one whose last report
// has the id; else those whose slice the pool may be; else the node of a pod
// that was seen carrying the address; else every node with an agent. Without
// reports it is the pod's own node, where there is a pod.
func (x *index) couldRun(s *subject, onPod bool) *nodeSet {
	var nodes []string
	for i := range s.sighted {
		g := &s.sighted[i]
		if g.gone == nil { // a stale report does not have what it names as gone
			nodes = append(nodes, g.report.Name)
		}
	}
	if len(nodes) > 0 {
		dead, missing := func(node string) bool { return x.deadFor(s, node) }, x.missing
		if s.alloc == nil {
			dead = func(string) bool { return false }
			missing = dead
		}
		return x.newNodeSet(sortedUnique(nodes), dead, missing)
	}
	if !x.inUse && s.pod != nil {
		if s.pod.Node == "" {
			return x.nodeSet(s, nil)
		}
		return x.single(s, s.pod.Node)
	}
	if s.pool != nil {
		if nodes = s.pool.SliceNodes(x.nodeNames); len(nodes) > 0 {
			return x.nodeSet(s, sortedUnique(nodes))
		}
	}
	nodes = append(nodes, x.o.Past.carriedOn(s)...)
	if onPod && s.pod.Node != "" {
		nodes = append(nodes, s.pod.Node)
	}
	switch nodes = sortedUnique(nodes); len(nodes) {
	case 0:
		return x.every(s)
	case 1:
		return x.single(s, nodes[0])
	}
	return x.nodeSet(s, nodes)
}

// findAgentNodes are all nodes that should have an agent and are neither dead nor
// missing; where nothing is known of nodes, those that reports and pods name.
func (x *index) findAgentNodes() []string {
	if len(x.o.Nodes) == 0 {
		return slices.Sorted(maps.Keys(x.nodeNames))
	}
	selects := x.policy.selector()
	var nodes []string
	for name, n := range x.o.Nodes {
		if !n.Dead() && selects(n) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// deadFor reports whether a node is proven dead as far as the subject goes: where
// a report of the node mentions it, that report decides, so that a fresh one
// counts even if the node is out of service.
func (x *index) deadFor(s *subject, node string) bool {
	for i := range s.sighted {
		if g := &s.sighted[i]; g.gone == nil && g.report.Name == node {
			return x.lost(g.report)
		}
	}
	return x.dead(node)
}
