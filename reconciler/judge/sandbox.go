package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
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
	// NoFreshReport: reports are in use, and a node that could run it has no fresh one.
	NoFreshReport
	// NoSource: there are no agents.
	NoSource
)

func (s Sandbox) String() string {
	return [...]string{"Ready", "NotReady", "Stopped", "Attached", "Gone", "NodeDead", "NodeMissing", "Absent", "NoFreshReport", "NoSource"}[s]
}

// candidate is what is judged: an allocation, or a reservation that stands alone.
type candidate struct {
	pool        *pool              // nil for a reservation
	alloc       *ippool.Allocation // nil for a reservation
	reservation *ippool.Reservation
	owner       ippool.PodRef
	network     string        // of a reservation
	address     netip.Addr    // of a reservation
	pod         *podstate.Pod // nil: none by that name
	reported    []reportEntry
}

func (s *candidate) podRef() string {
	if s.alloc != nil {
		return s.alloc.PodRef
	}
	return s.reservation.PodRef
}

// sandbox finds the state of a candidate's sandbox, and what it is concluded from.
func (x *Index) sandbox(s *candidate, e *Evidence) {
	if s.alloc != nil {
		e.ContainerID = s.alloc.ContainerID
	}
	if x.fromFreshReports(s, e) {
		if e.Sandbox == Stopped || e.Sandbox == Gone {
			x.checkOtherNodes(s, e)
		}
		return
	}
	n, certain := x.couldRun(s)
	e.setNodes(n)
	e.MissingNode, e.Unproven = n.missing, !certain
	if n.state == NodeDead {
		x.contradictedElsewhere(s, e)
	}
}

func (e *Evidence) setNodes(n *nodeSet) {
	e.Sandbox, e.Nodes, e.WithoutReport, e.gone, e.Unreachable, e.UnreachableTimedOut = n.state, n.names, n.withoutReport, n.gone, n.unreachable, n.timedOut
}

// fromFreshReports takes the strongest word of the reports that may be relied
// upon, and remembers which UID any report gives the id.
func (x *Index) fromFreshReports(s *candidate, e *Evidence) bool {
	found := false
	for i := range s.reported {
		g := &s.reported[i]
		uid := g.uid()
		state, ok := x.stateOf(g)
		if s.alloc == nil && (state == Stopped || state == Gone) {
			ok = false // nothing says that it was the reservation's own
		}
		if !ok {
			if e.SandboxUID == "" && s.alloc != nil {
				e.SandboxUID = uid
			}
			continue
		}
		better := !found || state < e.Sandbox ||
			state == e.Sandbox && s.pod != nil && uid == s.pod.RuntimeUID // a reservation may be of several
		nodes := g.report.node
		if found && state == e.Sandbox && slices.Contains(e.Nodes, nodes[0]) {
			nodes = e.Nodes
		} else if found && state == e.Sandbox { // a machine that was cloned tells what both had
			nodes = sortedUnique(slices.Concat(e.Nodes, nodes))
			e.Nodes = nodes
		}
		if better {
			e.Sandbox, e.SandboxUID, e.Nodes, found = state, uid, nodes, true
			if e.ContainerID == "" {
				e.ContainerID = g.containerID()
			}
		}
	}
	return found
}

// checkOtherNodes weighs the end of a sandbox that one node tells of against what is known of
// other nodes: one node does not speak for another, as that of the pod by that name.
// A machine that was cloned, or one agent that lies, would else free the address of a
// sandbox that runs.
func (x *Index) checkOtherNodes(s *candidate, e *Evidence) {
	told := e.Nodes
	if x.contradictedElsewhere(s, e) {
		return
	}
	others := x.seen(s).ranOn()
	if !slices.ContainsFunc(s.reportedOn(), func(node string) bool { return !slices.Contains(told, node) }) {
		others = append(others, s.pool.slice...) // else it is known where it ran
	}
	if s.pod != nil && !(s.pod.Phase == podstate.Finished && s.pod.StoppedByKubelet) && s.pod.Node != "" {
		others = append(others, s.pod.Node)
	}
	others = slices.DeleteFunc(sortedUnique(others), func(node string) bool { return slices.Contains(told, node) })
	if len(others) == 0 {
		return
	}
	n := x.newNodeSet(others, func(node string) nodeCondition { return x.nodeConditionFor(s, node) })
	e.MissingNode, e.Unproven = e.MissingNode || n.missing, true
	if n.state == NoFreshReport {
		e.setNodes(n)
	}
}

// contradictedElsewhere reports whether another node than those of the evidence has the id as
// what may be running, and holds it so.
func (x *Index) contradictedElsewhere(s *candidate, e *Evidence) bool {
	for i := range s.reported {
		g := &s.reported[i]
		switch {
		case !x.contradicts(g) || e.Sandbox != NodeDead && slices.Contains(e.Nodes, g.report.Name):
		case g.att != nil && x.isFresh(g.report) && !g.report.Counts(g.att, x.now): // a leftover, or one that takes long
			e.Unproven = true
		case x.expired(g.report):
			e.MissingNode, e.Unproven = true, true
		default:
			e.Sandbox, e.Nodes, e.EndedElsewhere = NotReady, g.report.node, true
			return true
		}
	}
	return false
}

// contradicts reports whether a node's report, fresh or stale, has the id and does
// not say itself that its network is closed.
func (x *Index) contradicts(g *reportEntry) bool {
	switch {
	case g.gone != nil || x.endedWithNode(g.report):
		return false
	case g.att != nil: // however old
		return !podstate.Closed(g.att.NetworkClosed)
	}
	return x.mayRun(g)
}

// stateOf is what a fresh report's mention proves; ok is false where it proves
// nothing, or the report is not fresh.
func (x *Index) stateOf(g *reportEntry) (state Sandbox, ok bool) {
	switch {
	case !x.isFresh(g.report):
	case g.sandbox != nil && g.sandbox.State == v1alpha1.SandboxReady:
		return Ready, true
	case g.sandbox != nil && g.sandbox.State == v1alpha1.SandboxNotReady && podstate.Closed(g.sandbox.NetworkClosed):
		return Stopped, true
	case g.sandbox != nil:
		return NotReady, true
	case g.att != nil && g.report.Counts(g.att, x.now):
		return Attached, true
	case g.gone != nil:
		return Gone, true
	}
	return 0, false
}

// pod names whose sandbox or attachment a mention is.
func (g *reportEntry) pod() (namespace, name string) {
	if g.sandbox != nil {
		return g.sandbox.Namespace, g.sandbox.Name
	}
	return g.att.Namespace, g.att.Name
}

func (g *reportEntry) uid() string {
	switch {
	case g.sandbox != nil:
		return g.sandbox.UID
	case g.att != nil:
		return g.att.UID
	}
	return g.gone.UID
}

func (g *reportEntry) containerID() string {
	switch {
	case g.sandbox != nil:
		return g.sandbox.ID
	case g.att != nil:
		return g.att.ID
	}
	return g.gone.ID
}

// mayRun reports whether a mention is Ready, NotReady or Attached as of its report,
// fresh or stale.
func (x *Index) mayRun(g *reportEntry) bool {
	switch {
	case g.sandbox != nil:
		return g.sandbox.State == v1alpha1.SandboxReady || !podstate.Closed(g.sandbox.NetworkClosed)
	case g.att != nil:
		return g.report.Counts(g.att, x.now)
	}
	return false
}
