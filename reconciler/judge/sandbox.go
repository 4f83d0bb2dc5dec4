package judge

import (
	"cmp"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Sandbox is what is known of the sandbox of an allocation. If several apply, the first counts.
type Sandbox int8

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

// sandboxState is what reports and nodes show of an item's sandbox.
type sandboxState struct {
	nodeSet
	uid, id           string // by a report; "" if none has the sandbox
	unproven          bool   // these three: see Evidence
	endedElsewhere    bool
	onlyOthersMissing bool
}

// boundPod is the pod by an owner's name, nil if it does not exist. Its phase is None if it was never bound to a node.
type boundPod struct {
	*podstate.Pod
	phase podstate.Phase
}

// sandboxOf is the state of an item's sandbox.
func (x *judging) sandboxOf(it *Item, pod boundPod, mentions []facts.Mention) sandboxState {
	s, found := x.reportedState(it, pod.Pod, mentions)
	switch {
	case found && (s.Sandbox == Stopped || s.Sandbox == Gone):
		return x.checkedOnOtherNodes(s, it, pod, mentions)
	case found:
		return s
	}
	c := x.couldRun(it, pod, mentions)
	c.uid, c.id = s.uid, s.id
	return c
}

// reportedState is the first state that a fresh report has, and the UID that any report gives the ID.
func (x *judging) reportedState(it *Item, pod *podstate.Pod, mentions []facts.Mention) (s sandboxState, found bool) {
	isAllocation := it.Allocation != nil
	for i := range mentions {
		g := &mentions[i]
		state, ok := x.stateOf(g)
		if !isAllocation && (state == Stopped || state == Gone) {
			ok = false // the sandbox may not be the reservation's
		}
		if !ok {
			if s.uid == "" && isAllocation {
				s.uid = g.UID
			}
			continue
		}
		nodes := g.Report.OnNode
		if found && state == s.Sandbox { // a cloned machine reports what both had
			if nodes = s.Nodes; !slices.Contains(nodes, g.Report.Name) {
				nodes = facts.SortedUnique(slices.Concat(nodes, g.Report.OnNode))
			}
			s.Nodes = nodes
		}
		// A reservation may have several sandboxes.
		isOfPod := found && state == s.Sandbox && pod != nil && g.UID == pod.RuntimeUID
		if !found || state < s.Sandbox || isOfPod {
			s.Sandbox, s.uid, s.Nodes, found = state, g.UID, nodes, true
			s.id = cmp.Or(s.id, g.ID)
		}
	}
	return s, found
}

// checkedOnOtherNodes is the end of a sandbox that one node reports, checked against other nodes that may run it.
// Without this check, a cloned machine or one lying agent could release the address of a running sandbox.
func (x *judging) checkedOnOtherNodes(s sandboxState, it *Item, pod boundPod, mentions []facts.Mention) sandboxState {
	isOther := func(node string) bool { return !slices.Contains(s.Nodes, node) }
	c := x.contradictionTo(s.Nodes, mentions)
	if c.by != nil {
		return s.with(c)
	}
	others := slices.Concat(x.past.Of(it.ID()).RanOn, x.mustReportAgain(mentions))
	if !slices.ContainsFunc(reportingNodes(mentions), isOther) {
		others = append(others, x.MayBeSliceOf(it.pool)...) // otherwise a report says where it ran
	}
	if pod.Pod != nil && !(pod.phase == podstate.Finished && pod.StoppedByKubelet) && pod.Node != "" {
		others = append(others, pod.Node)
	}
	others = slices.DeleteFunc(facts.SortedUnique(others), func(node string) bool { return !isOther(node) })
	if len(others) == 0 {
		return s.with(c)
	}
	n := x.newNodeSet(others, x.NodeCondition)
	isMissing := s.MissingNode || n.MissingNode
	if n.Sandbox == NoFreshReport {
		s.nodeSet = *n
	}
	s.unproven, s.MissingNode = true, isMissing
	return s.with(c)
}

// contradiction is what nodes report against the end of a sandbox that other nodes report. The zero value is nothing.
type contradiction struct {
	by       *facts.Report // lists the sandbox as one that may run; nil for none
	obsolete bool          // an obsolete report does
}

// with is the state with a contradiction to it: the sandbox may run, or its end is unproven.
func (s sandboxState) with(c contradiction) sandboxState {
	if c.obsolete {
		s.MissingNode, s.unproven = true, true
	}
	if c.by != nil {
		s.Sandbox, s.Nodes, s.endedElsewhere = NotReady, c.by.OnNode, true
	}
	return s
}

// contradictionTo finds the report of another node than those that report the end of a sandbox.
func (x *judging) contradictionTo(nodes []string, mentions []facts.Mention) (c contradiction) {
	for i := range mentions {
		g := &mentions[i]
		switch {
		case !x.MayRun(g) || x.HasEndedWithNode(g.Report) || slices.Contains(nodes, g.Report.Name):
		case x.IsObsolete(g.Report):
			c.obsolete = true
		default:
			c.by = g.Report
			return c
		}
	}
	return c
}

// stateOf is what a mention in a fresh report proves; ok is false if it proves nothing.
func (x *judging) stateOf(g *facts.Mention) (state Sandbox, ok bool) {
	switch {
	case !g.Report.IsFresh(x.Now()):
		return 0, false
	case g.Kind == facts.OfGone:
		return Gone, true
	case g.Kind == facts.OfAttachment:
		return Attached, x.MayRun(g)
	case g.State == v1alpha1.SandboxReady:
		return Ready, true
	case g.State == v1alpha1.SandboxNotReady && podstate.IsClosed(g.NetworkClosed):
		return Stopped, true
	}
	return NotReady, true
}
