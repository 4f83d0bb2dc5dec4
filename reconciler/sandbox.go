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

// sandboxEvidence is the state and what it was concluded from.
type sandboxEvidence struct {
	state   Sandbox
	uid     string // of the pod that the runtime ran it for; "" where no report says
	id      string
	nodes   []string // that could run it, sorted
	unheard []string // those of them that nothing fresh is known of
}

// subject is what is judged: an allocation, or a reservation that stands alone.
type subject struct {
	id      ID
	pool    *ippool.Pool       // nil for a reservation
	alloc   *ippool.Allocation // nil for a reservation
	owner   ippool.PodRef
	network string        // of a reservation
	address netip.Addr    // of a reservation
	pod     *podstate.Pod // nil: none by that name
	onPod   bool
	sighted []sighting
}

// sandbox finds the state of a subject's sandbox.
func (w *world) sandbox(s *subject) sandboxEvidence {
	e := sandboxEvidence{state: NoSource}
	if s.alloc != nil {
		e.id = s.alloc.ContainerID
	}
	if w.fromFreshReports(s, &e) {
		return e
	}
	e.nodes = w.couldRun(s)
	dead, missing := 0, 0
	for _, n := range e.nodes {
		switch {
		case s.alloc == nil: // a reservation names no sandbox, so no node is known to have run it
		case w.deadFor(s, n):
			dead++
			continue
		case w.missing(n):
			missing++
			continue
		}
		if !w.fresh(n) {
			e.unheard = append(e.unheard, n)
		}
	}
	switch {
	case len(e.nodes) > 0 && dead == len(e.nodes):
		e.state = NodeDead
	case len(e.nodes) > 0 && dead+missing == len(e.nodes):
		e.state = NodeMissing
	case !w.inUse:
		e.state = NoSource
	case len(e.nodes) == 0 || len(e.unheard) > 0:
		e.state = Unheard
	default:
		e.state = Absent
	}
	return e
}

// fromFreshReports takes the strongest word of the reports that may be relied
// upon, and remembers which UID any report gives the id.
func (w *world) fromFreshReports(s *subject, e *sandboxEvidence) bool {
	found := false
	for i := range s.sighted {
		g := &s.sighted[i]
		uid := g.uid()
		if !g.report.Fresh(w.Now) {
			if e.uid == "" {
				e.uid = uid
			}
			continue
		}
		state, ok := w.stateOf(g)
		if !ok {
			if e.uid == "" {
				e.uid = uid
			}
			continue
		}
		better := !found || state < e.state ||
			state == e.state && s.pod != nil && uid == s.pod.RuntimeUID // a reservation may be of several
		if better {
			e.state, e.uid, e.nodes, found = state, uid, []string{g.report.Name}, true
			if e.id == "" {
				e.id = g.containerID()
			}
		}
	}
	return found
}

func (w *world) stateOf(g *sighting) (Sandbox, bool) {
	switch {
	case g.box != nil && g.box.State == v1alpha1.SandboxReady:
		return Ready, true
	case g.box != nil && g.box.State == v1alpha1.SandboxNotReady && podstate.Closed(g.box.NetworkClosed):
		return Stopped, true
	case g.box != nil:
		return NotReady, true
	case g.att != nil && g.report.Counts(g.att, w.Now):
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
func (w *world) couldRun(s *subject) []string {
	var nodes []string
	for i := range s.sighted {
		g := &s.sighted[i]
		if g.gone == nil { // a stale report does not have what it names as gone
			nodes = append(nodes, g.report.Name)
		}
	}
	if len(nodes) > 0 {
		return sortedUnique(nodes)
	}
	if !w.inUse && s.pod != nil {
		if s.pod.Node == "" {
			return nil
		}
		return []string{s.pod.Node}
	}
	if s.pool != nil {
		if nodes = s.pool.SliceNodes(w.nodeNames); len(nodes) > 0 {
			return sortedUnique(nodes)
		}
	}
	nodes = append(nodes, w.Past.carriedOn(s.id)...)
	if s.onPod && s.pod.Node != "" {
		nodes = append(nodes, s.pod.Node)
	}
	if len(nodes) > 0 {
		return sortedUnique(nodes)
	}
	return w.agents
}

// agentNodes are all nodes that should have an agent and are neither dead nor
// missing; where nothing is known of nodes, those that reports and pods name.
func (w *world) agentNodes() []string {
	if len(w.Nodes) == 0 {
		return slices.Sorted(maps.Keys(w.nodeNames))
	}
	var nodes []string
	for name, n := range w.Nodes {
		if !n.Dead() && w.policy.selects(n) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// deadFor says whether a node is proven dead as far as the subject goes: where
// a report of the node mentions it, that report decides, so that a fresh one
// counts even if the node is out of service.
func (w *world) deadFor(s *subject, node string) bool {
	for i := range s.sighted {
		if g := &s.sighted[i]; g.gone == nil && g.report.Name == node {
			return w.lost(g.report)
		}
	}
	return w.dead(node)
}
