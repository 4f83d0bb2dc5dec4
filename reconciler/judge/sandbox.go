package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Sandbox is what is known of the sandbox of an allocation. If several apply, the first counts.
type Sandbox int

const (
	Ready         Sandbox = iota // a fresh report lists the ID as READY
	NotReady                     // a fresh report lists it as NOTREADY, and its network namespace may be open
	Stopped                      // a fresh report lists it as NOTREADY, and its network namespace is closed
	Attached                     // a fresh report lists it as an attachment whose network is not known to be closed
	Gone                         // a fresh report lists it among the sandboxes that have ended
	NodeDead                     // a node that could run it is proven dead, and no other may run it
	NodeMissing                  // a node that could run it has no Node object, and no other may run it
	Absent                       // no report has it, and every node that could run it has a fresh report
	NoFreshReport                // a node that could run it has no fresh report
	NoSource                     // the cluster has no node agents
)

func (s Sandbox) String() string {
	return [...]string{"Ready", "NotReady", "Stopped", "Attached", "Gone",
		"NodeDead", "NodeMissing", "Absent", "NoFreshReport", "NoSource"}[s]
}

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
	if e.NodesUnknown {
		e.unknown = x.nodesUnknown()
	}
}

// findReported takes the first state that a fresh report has, and the UID that any report gives the ID.
func (x *Index) findReported(it *Item) (found bool) {
	e := it.evidence
	for i := range it.evidence.mentions {
		g := &it.evidence.mentions[i]
		state, ok := x.stateOf(g)
		isAllocation := it.Allocation != nil
		if !isAllocation && (state == Stopped || state == Gone) {
			ok = false // the sandbox may not be the reservation's
		}
		if !ok {
			if e.SandboxUID == "" && isAllocation {
				e.SandboxUID = g.UID
			}
			continue
		}
		nodes := g.report.node
		if found && state == e.Sandbox { // a cloned machine reports what both had
			if nodes = e.Nodes; !slices.Contains(nodes, g.report.Name) {
				nodes = sortedUnique(slices.Concat(nodes, g.report.node))
			}
			e.Nodes = nodes
		}
		// A reservation may have several sandboxes.
		isOfPod := found && state == e.Sandbox && e.Pod != nil && g.UID == e.Pod.RuntimeUID
		if !found || state < e.Sandbox || isOfPod {
			e.Sandbox, e.SandboxUID, e.Nodes, found = state, g.UID, nodes, true
			if e.ContainerID == "" {
				e.ContainerID = g.ID
			}
		}
	}
	return found
}

// checkOtherNodes checks the end of a sandbox that one node reports against other nodes that may run it. Without this
// check, a cloned machine or one lying agent could release the address of a running sandbox.
func (x *Index) checkOtherNodes(it *Item) {
	e := it.evidence
	reporting := e.Nodes
	if x.isContradicted(it) {
		return
	}
	isOther := func(node string) bool { return !slices.Contains(reporting, node) }
	others := slices.Concat(x.past.Of(it.ID()).RanOn, x.mustReportAgain(it))
	if !slices.ContainsFunc(it.reportingNodes(), isOther) {
		others = append(others, x.mayBeSliceOf(it.pool)...) // otherwise a report says where it ran
	}
	if e.Pod != nil && !(e.Phase == podstate.Finished && e.Pod.StoppedByKubelet) && e.Pod.Node != "" {
		others = append(others, e.Pod.Node)
	}
	others = slices.DeleteFunc(sortedUnique(others), func(node string) bool { return !isOther(node) })
	if len(others) == 0 {
		return
	}
	n := x.newNodeSet(others, x.nodeCondition)
	isMissing := e.MissingNode || n.MissingNode
	if e.Unproven = true; n.Sandbox == NoFreshReport {
		e.nodeSet, e.unknown = *n, x.nodesUnknown()
	}
	e.MissingNode = isMissing
}

// isContradicted reports whether a node outside the evidence has the ID as one that may run, and then holds the item.
func (x *Index) isContradicted(it *Item) bool {
	e := it.evidence
	for i := range it.evidence.mentions {
		g := &it.evidence.mentions[i]
		node := g.report.Name
		switch {
		case !x.mayRun(g) || x.hasEndedWithNode(g.report):
		case slices.Contains(e.Nodes, node):
		case x.isObsolete(g.report):
			e.MissingNode, e.Unproven = true, true
		default:
			e.Sandbox, e.Nodes, e.EndedElsewhere = NotReady, g.report.node, true
			return true
		}
	}
	return false
}
