package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// nodeSet are the nodes that could run a sandbox which no fresh report has, and the conclusions from their states.
type nodeSet struct {
	Nodes         []string `json:"-"`                       // that could run the sandbox, sorted
	WithoutReport []string `json:"withoutReport,omitempty"` // of Nodes, those without a fresh report
	NotReady      []string `json:"-"`                       // without agents: of Nodes, those that are not Ready
	Sandbox       Sandbox  `json:"-"`
	// NodesUnknown: it is not known which nodes could run the sandbox, because a source is unknown.
	NodesUnknown bool `json:"nodesUnknown,omitempty"`
	MissingNode  bool `json:"-"` // the evidence rests on a missing Node object
	// Unreachable: all of WithoutReport are not Ready; without agents, a node that could run it.
	Unreachable bool `json:"unreachable,omitempty"`
	// UnreachableTimedOut: Unreachable, for longer than --unreachable-node-timeout.
	UnreachableTimedOut bool `json:"unreachableTimedOut,omitempty"`
}

// newNodeSet draws the conclusions from the condition of each node.
func (x *judging) newNodeSet(names []string, conditionOf func(string) facts.NodeCondition) *nodeSet {
	n := &nodeSet{Nodes: names}
	var count [facts.NodeObjectMissing + 1]int
	for _, name := range names {
		c := conditionOf(name)
		count[c]++
		if c == facts.NotReporting {
			n.WithoutReport = append(n.WithoutReport, name)
		}
	}
	without := n.WithoutReport
	switch {
	case len(names) > 0 && count[facts.ProvenDead] == len(names):
		n.Sandbox = NodeDead
	case len(names) > 0 && count[facts.ProvenDead]+count[facts.NodeObjectMissing] == len(names):
		n.Sandbox = NodeMissing
	case !x.HasAgents():
		n.Sandbox = NoSource
		// Without agents one node that is not Ready is enough to hold what it may run.
		without = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !x.IsNotReady(name) || len(names) > 1 && x.IsDead(name)
		})
		n.NotReady = without
	case len(names) == 0 || count[facts.NotReporting] > 0 || !x.HasNodes() || !x.SelectsNodes():
		n.Sandbox = NoFreshReport
	case count[facts.NodeObjectMissing] > 0:
		n.Sandbox = NodeMissing
	case count[facts.ProvenDead] > 0:
		n.Sandbox = NodeDead
	default:
		n.Sandbox = Absent
	}
	n.NodesUnknown = (n.Sandbox == NoSource || n.Sandbox == NoFreshReport) && (!x.HasNodes() || !x.SelectsNodes())
	n.MissingNode = n.Sandbox == NodeMissing || n.Sandbox == NoSource && count[facts.NodeObjectMissing] > 0
	mayBeReady := func(name string) bool { return !x.IsNotReady(name) }
	timeout := x.Policy().UnreachableNodeTimeout
	hasTime := func(name string) bool {
		since := x.Node(name).NotReadySince
		return since.IsZero() || x.Now().Sub(since) < timeout
	}
	n.Unreachable = len(without) > 0 && !slices.ContainsFunc(without, mayBeReady)
	n.UnreachableTimedOut = n.Unreachable && timeout > 0 && !slices.ContainsFunc(without, hasTime)
	return n
}

// nodeConditionForLone is the condition of a node for a reservation without an allocation, which names no sandbox. A
// node that is dead, or missing for long, needs no report, and proves nothing.
func (x *judging) nodeConditionForLone(node string) facts.NodeCondition {
	c, r := x.NodeCondition(node), x.Report(node)
	switch {
	case c == facts.ProvenDead, c == facts.NodeObjectMissing && (r == nil || x.IsObsolete(r)):
		return facts.Reporting
	case c == facts.NodeObjectMissing:
		return facts.NotReporting
	}
	return c
}

type nodeSetKey struct {
	names              string // joined by "+", which no node name contains
	andAgents          bool
	isReservationAlone bool
	joinedSince        string // the nodes that are excluded, joined as names are
}

// nodeSetOf is the nodeSet of nodes whose reports do not have the sandbox. With andAgents it includes agentNodes. Many
// items share one.
func (x *judging) nodeSetOf(it *Item, names []string, andAgents bool) *nodeSet {
	var others []string
	if andAgents {
		others = x.joinedSince(it)
	}
	key := nodeSetKey{strings.Join(names, "+"), andAgents, it.Allocation == nil, strings.Join(others, "+")}
	if n := x.nodeSets[key]; n != nil {
		return n
	}
	if andAgents {
		agents := x.AgentNodes()
		if len(others) > 0 {
			agents = slices.DeleteFunc(slices.Clone(agents), func(name string) bool { return slices.Contains(others, name) })
		}
		names = facts.SortedUnique(slices.Concat(agents, names))
	}
	if it.Allocation != nil {
		x.nodeSets[key] = x.newNodeSet(names, x.NodeCondition)
		return x.nodeSets[key]
	}
	n := x.newNodeSet(names, x.nodeConditionForLone)
	n.MissingNode = slices.ContainsFunc(names, func(name string) bool {
		return x.NodeCondition(name) == facts.NodeObjectMissing && x.nodeConditionForLone(name) == facts.Reporting
	})
	if n.Sandbox == Absent && !slices.ContainsFunc(names, x.ProvesAbsence) {
		n.Sandbox = NoFreshReport
	}
	x.nodeSets[key] = n
	return n
}

// couldRun are the nodes that could run the sandbox: those whose last report has the ID, that of the owner's pod, and
// those of pods that were observed with the address. A node that reported the end must report it again. If no report
// has the ID as one that may run, also the nodes whose slice the pool is, or every node with an agent. A slice whose
// nodes all lack a Node object narrows nothing: they may be no nodes. Without agents it is the pod's own node. Of a pod
// that is gone that is known if this process saw the pod bound, and no other can have its name: its nodes could run
// it, and those that had the address. The state is unproven if another node could run it.
func (x *judging) couldRun(it *Item, bound boundPod, mentions []facts.Mention) sandboxState {
	pod := bound.Pod
	if bound.phase == podstate.None { // it was never bound to a node
		pod = nil
	}
	switch {
	case !x.HasAgents() && pod != nil && pod.Node == "":
		return sandboxState{nodeSet: *x.nodeSetOf(it, nil, false)}
	case !x.HasAgents() && pod != nil:
		return sandboxState{nodeSet: *x.nodeSetOf(it, []string{pod.Node}, false)}
	}
	if !x.HasAgents() && it.Allocation != nil && x.past.Of(it.ID()).RanOnlyThere {
		return sandboxState{nodeSet: *x.nodeSetOf(it, facts.SortedUnique(x.knownNodes(it, bound.Pod)), false), unproven: true}
	}
	reported := reportingNodes(mentions)
	all := facts.SortedUnique(slices.Concat(x.knownNodes(it, bound.Pod), reported,
		slices.DeleteFunc(x.mustReportAgain(mentions), x.IsMissing)))
	if it.Allocation != nil && len(reported) == 0 { // otherwise a report says where it ran
		all = facts.SortedUnique(append(all, x.MayBeSliceOf(it.pool)...))
	}
	s := sandboxState{unproven: true, onlyOthersMissing: !slices.ContainsFunc(all, x.IsMissing)}
	switch {
	case it.Allocation == nil && pod != nil && x.IsDeadOrMissing(pod.Node):
		names := facts.SortedUnique(slices.Concat(x.AgentNodes(), all))
		s.nodeSet = *x.newNodeSet(names, func(name string) facts.NodeCondition {
			if name == pod.Node {
				return facts.NotReporting
			}
			return x.nodeConditionForLone(name)
		})
	case it.Allocation != nil && len(reported) > 0:
		s.nodeSet, s.unproven = *x.nodeSetOf(it, all, false), len(all) != len(reported)
	case it.Allocation != nil && slices.ContainsFunc(it.pool.Slice, func(node string) bool { return x.NodeNames()[node] }):
		s.nodeSet = *x.nodeSetOf(it, all, false)
	default:
		s.nodeSet = *x.nodeSetOf(it, slices.DeleteFunc(all, func(name string) bool {
			_, found := slices.BinarySearch(x.AgentNodes(), name)
			return found
		}), true)
	}
	return s
}

// reportingNodes are the nodes whose last report has the sandbox, but not as ended.
func reportingNodes(mentions []facts.Mention) (nodes []string) {
	for i := range mentions {
		if g := &mentions[i]; g.Kind != facts.OfGone {
			nodes = append(nodes, g.Report.Name)
		}
	}
	return facts.SortedUnique(nodes)
}

// mustReportAgain are the nodes whose expired reports have the sandbox, also as one that has ended. Only a node that is
// proven dead need not report that again.
func (x *judging) mustReportAgain(mentions []facts.Mention) (nodes []string) {
	for i := range mentions {
		if r := mentions[i].Report; !r.IsFresh(x.Now()) && !x.HasEndedWithNode(r) {
			nodes = append(nodes, r.Name)
		}
	}
	return nodes
}

// knownNodes are the nodes of the owner's pod and of pods that carry the address, now or earlier.
func (x *judging) knownNodes(it *Item, pod *podstate.Pod) []string {
	seen := x.past.Of(it.ID())
	nodes := slices.Concat(seen.RanOn, seen.CarriedOn)
	if pod != nil && pod.Node != "" {
		nodes = append(nodes, pod.Node)
	}
	for _, c := range x.PodsAt(it.Address()) {
		if c.Pod.Node != "" && it.mayBeOn(c.NAD) {
			nodes = append(nodes, c.Pod.Node)
		}
	}
	return nodes
}

// joinedSince are the nodes without a Node object that joined after an item was first observed, sorted. A sandbox
// precedes its allocation, so they could not have run the item's.
func (x *judging) joinedSince(it *Item) (names []string) {
	if len(x.MissingNodes()) == 0 {
		return nil
	}
	first := x.past.Of(it.ID()).First
	for name, joined := range x.MissingNodes() {
		if !first.IsZero() && joined.After(first.Add(v1alpha1.MaxClockDifference)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// AgentNodes are the nodes, sorted, that may run a sandbox and so must report, with those whose Node object is missing
// since a moment. Doubts.Expected remembers them.
func (j *Judgement) AgentNodes() []string { return j.facts.AgentNodes() }

// NotRenewedSince are the nodes, sorted, that are not proven dead and whose reports were not renewed DELTimeout after
// the fence. Every ADD and DEL that was in progress has ended by then.
func (j *Judgement) NotRenewedSince(fenced time.Time) (nodes []string) {
	renewed := map[string]bool{}
	for _, r := range j.Observation.Reports.Or(nil) {
		renewed[r.Name] = !r.ConfirmedAt.Before(fenced.Add(DELTimeout))
	}
	for node, state := range j.Nodes {
		if state != facts.NodeDeadOrMissing && !renewed[node] {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// DELTimeout is how long after the fence a report must be renewed before an entry is rewritten by it. CRI-O removes the
// network of a sandbox that is still READY, and a DEL in progress must have time to end.
const DELTimeout = 10 * time.Second
