package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Sandbox is what is known of the sandbox of an allocation. The order is the
// order in which evidence counts: the first that holds.
type Sandbox int

const (
	// Ready: a fresh report lists the id as READY.
	Ready Sandbox = iota
	// NotReady: a fresh report lists it as NOTREADY, its network namespace open or not known.
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

// findSandbox finds the state of an item's sandbox, and what it is concluded from.
func (x *Index) findSandbox(it *Item) {
	e := it.evidence
	e.ContainerID = it.ContainerID()
	if x.findReported(it) {
		if e.Sandbox == Stopped || e.Sandbox == Gone {
			x.checkOtherNodes(it)
		}
		return
	}
	n, certain := x.couldRun(it)
	e.nodeSet, e.Unproven = *n, !certain
	if n.Sandbox == NodeDead {
		x.isContradicted(it)
	}
}

// findReported takes the strongest state of the fresh reports, and remembers which UID any report gives the ID.
func (x *Index) findReported(it *Item) (found bool) {
	e := it.evidence
	for i := range it.mentions {
		g := &it.mentions[i]
		state, ok := x.stateOf(g)
		isAllocation := it.Allocation != nil
		if !isAllocation && (state == Stopped || state == Gone) {
			ok = false // nothing reports that it was the reservation's own
		}
		if !ok {
			if e.SandboxUID == "" && isAllocation {
				e.SandboxUID = g.UID
			}
			continue
		}
		nodes := g.report.node
		if found && state == e.Sandbox { // a machine that was cloned reports what both had
			if nodes = e.Nodes; !slices.Contains(nodes, g.report.Name) {
				nodes = sortedUnique(slices.Concat(nodes, g.report.node))
			}
			e.Nodes = nodes
		}
		if !found || state < e.Sandbox || state == e.Sandbox && e.Pod != nil && g.UID == e.Pod.RuntimeUID { // a reservation may be of several
			e.Sandbox, e.SandboxUID, e.Nodes, found = state, g.UID, nodes, true
			if e.ContainerID == "" {
				e.ContainerID = g.ID
			}
		}
	}
	return found
}

// checkOtherNodes weighs the end of a sandbox that one node reports against what is known of other nodes: one node does
// not speak for another, as that of the pod by that name. A machine that was cloned, or one agent that lies, would else
// release the address of a sandbox that runs.
func (x *Index) checkOtherNodes(it *Item) {
	e := it.evidence
	reporting := e.Nodes
	if x.isContradicted(it) {
		return
	}
	isOther := func(node string) bool { return !slices.Contains(reporting, node) }
	others := slices.Clone(x.past.Of(it.ID()).RanOn)
	if !slices.ContainsFunc(it.reportedOn(), isOther) {
		others = append(others, it.in.slice...) // else it is known where it ran
	}
	if e.Pod != nil && !(e.Phase == podstate.Finished && e.Pod.StoppedByKubelet) && e.Pod.Node != "" {
		others = append(others, e.Pod.Node)
	}
	others = slices.DeleteFunc(sortedUnique(others), func(node string) bool { return !isOther(node) })
	if len(others) == 0 {
		return
	}
	n := x.newNodeSet(others, func(node string) nodeCondition { return x.nodeConditionFor(it, node) })
	isMissing := e.MissingNode || n.MissingNode
	if e.Unproven = true; n.Sandbox == NoFreshReport {
		e.nodeSet = *n
	}
	e.MissingNode = isMissing
}

// isContradicted reports whether another node than those of the evidence has the ID as what may be running, and then
// holds the item. It counts for an attachment however old, unless the report says itself that its network is closed.
func (x *Index) isContradicted(it *Item) bool {
	e := it.evidence
	for i := range it.mentions {
		g := &it.mentions[i]
		contradicts := x.mayRun(g) || g.kind == ofAttachment && !podstate.IsClosed(g.NetworkClosed)
		switch {
		case !contradicts || x.endedWithNode(g.report) || e.Sandbox != NodeDead && slices.Contains(e.Nodes, g.report.Name):
		case g.kind == ofAttachment && g.report.IsFresh(x.now) && !x.counts(g): // a leftover, or one that takes long
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
