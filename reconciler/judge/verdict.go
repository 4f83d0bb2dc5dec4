package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Judged is a verdict with why.
type Judged struct {
	Verdict Verdict
	Reason  Reason
	Proven  bool // of a Stale verdict: may be released at once
	claimed bool // it would be Stale, had nobody else the address
	onPod   bool // its pod carries the address
	row     uint8
}

// The rows that are not in the table.
const (
	rowProblem = 253 // it cannot be read
	rowRecent  = 254 // a reservation that is younger than an ADD may take
	rowNone    = 255
)

// rule is one row of the verdict table. A nil column matches everything.
type rule struct {
	pod     podstate.Phase
	own     func(*Evidence) bool
	sandbox []Sandbox
	when    func(*Evidence) bool
	verdict Verdict
	proven  bool
	reason  Reason
	say     string // {pod}, {sandbox}, {nodes}, {unheard}, {over}, {phase} are filled in
}

// anyPod matches whatever the API has by that name.
const anyPod podstate.Phase = -1

func its(e *Evidence) bool         { return e.Own == ItsPod }
func notIts(e *Evidence) bool      { return e.Own == NotItsPod }
func noneOfIts(e *Evidence) bool   { return e.Phase == podstate.None || e.Own == NotItsPod }
func overdue(e *Evidence) bool     { return e.Phase == podstate.Terminating && e.Overdue }
func onPod(e *Evidence) bool       { return e.OnPod }
func noStatus(e *Evidence) bool    { return e.Pod.Status != podstate.StatusReadable }
func stopped(e *Evidence) bool     { return e.Pod.StoppedByKubelet }
func unreachable(e *Evidence) bool { return e.Unreachable }
func elsewhere(e *Evidence) bool   { return e.Elsewhere }
func givenUp(e *Evidence) bool     { return e.Unreachable && e.UnreachableOK }

// stoppedUnheard takes kubelet's word for the pod that it speaks of only, and for its
// own node: the sandbox of an earlier pod of the name may run on, on a node that is
// not heard.
func stoppedUnheard(e *Evidence) bool {
	own := len(e.Unheard) == 1 && e.Unheard[0] == e.Pod.Node
	return e.Pod.StoppedByKubelet && !e.StaleSaysRun && e.Own != NotItsPod && own
}

// table is the verdict table; the first row that matches decides.
//
// The order carries the safety: a sandbox that runs is never stale whatever the
// API says; a pod that is starting is not asked for its addresses; an address
// that the pod carries counts whatever became of the sandbox; and only then do
// the rows follow in which something is missing. A row with two reasons in the
// design is two rows here, the one with the condition first.
func table() []rule {
	return []rule{
		{pod: anyPod, own: noneOfIts, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the API knows no such pod: its address is in use"},
		{pod: podstate.Finished, own: its, sandbox: is(Ready), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its sandbox still runs on {nodes}"},
		{pod: podstate.Terminating, own: its, sandbox: is(Ready), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}, and its sandbox still runs on {nodes}"},
		{pod: podstate.Terminating, own: its, sandbox: is(Ready), verdict: Held, reason: Terminating,
			say: "the pod is being deleted, and its sandbox still runs on {nodes}"},
		{pod: anyPod, own: its, sandbox: is(Ready), verdict: InUse, reason: SandboxReady,
			say: "the pod's sandbox runs on {nodes}"},
		{pod: podstate.Pending, own: notIts, sandbox: is(Stopped, Gone, NodeDead), verdict: Stale, proven: true, reason: PodReplaced,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{pod: podstate.Pending, sandbox: is(Absent), verdict: Stale, reason: PodReplaced,
			say: "no runtime has this sandbox, while the pod of this name is still Pending"},
		{pod: podstate.Pending, verdict: InUse, reason: PodPending,
			say: "the pod is Pending: its network may be being set up, so it is not asked for its addresses"},
		{pod: podstate.Live, when: onPod, verdict: InUse, reason: AddressOnPod,
			say: "the running pod carries the address"},
		{pod: anyPod, sandbox: is(Attached), verdict: Held, reason: AttachedReason,
			say: "a CNI cache on {nodes} has the sandbox attached, and the runtime does not list it: it is being set up, or lost its DEL"},
		{pod: anyPod, sandbox: is(NotReady), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; its sandbox on {nodes} is not ready, and its network not known to be closed"},
		{pod: anyPod, sandbox: is(NotReady), when: elsewhere, verdict: Held, reason: SandboxNotReady,
			say: "the sandbox has ended on another node, and the report of {nodes} has it, too, as one that may be running"},
		{pod: anyPod, sandbox: is(NotReady), verdict: Held, reason: SandboxNotReady,
			say: "the sandbox on {nodes} is not ready, but its network is not known to be closed: the address may still answer"},
		{pod: anyPod, sandbox: is(NodeDead), verdict: Stale, proven: true, reason: NodeDeadReason,
			say: "{over} is proven dead (out of service, or booted again since the sandbox was seen)"},
		{pod: anyPod, sandbox: is(NodeMissing), verdict: Stale, reason: NodeMissingReason,
			say: "the Node object of {over} is gone"},
		{pod: podstate.Finished, sandbox: is(Unheard), when: stoppedUnheard, verdict: Stale, reason: PodFinished,
			say: "the pod is {phase} and its kubelet reported every container stopped; the agent on {unheard} is not heard"},
		{pod: anyPod, sandbox: is(Unheard), when: givenUp, verdict: Stale, reason: NodeUnreachable,
			say: "{unheard} has been not Ready for longer than --unreachable-node-timeout"},
		{pod: anyPod, sandbox: is(Unheard), when: unreachable, verdict: Held, reason: NodeUnreachable,
			say: "{unheard} is not Ready and its agent is not heard: the sandbox may run on behind a partition"},
		{pod: anyPod, sandbox: is(Unheard), verdict: Held, reason: NodeUnheard,
			say: "{unheard} could run the sandbox, and no fresh SandboxReport reports whether it does"},
		{pod: podstate.Live, own: notIts, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodReplaced,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{pod: podstate.Live, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxReplaced,
			say: "the sandbox has ended ({sandbox}), and the running pod does not carry the address"},
		{pod: podstate.Live, sandbox: is(Absent, NoSource), when: noStatus, verdict: Held, reason: NetworkStatusMissing,
			say: "the running pod has no readable network-status, so nothing says which addresses it carries"},
		{pod: podstate.Live, sandbox: is(Absent, NoSource), verdict: Stale, reason: AddressNotOnPod,
			say: "the running pod's network-status does not have the address"},
		{pod: podstate.Terminating, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxStopped,
			say: "the pod is being deleted and its sandbox has ended ({sandbox})"},
		{pod: podstate.Terminating, sandbox: is(Absent), verdict: Stale, reason: SandboxStopped,
			say: "the pod is being deleted, and no runtime has the sandbox"},
		{pod: podstate.Terminating, sandbox: is(NoSource), when: givenUp, verdict: Stale, reason: NodeUnreachable,
			say: "the pod is being deleted, and its node {nodes} has been not Ready for longer than --unreachable-node-timeout"},
		{pod: podstate.Terminating, sandbox: is(NoSource), when: unreachable, verdict: Held, reason: NodeUnreachable,
			say: "the pod is being deleted, and its node {nodes} is not Ready: its containers may run on"},
		{pod: podstate.Terminating, sandbox: is(NoSource), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; without a node agent nothing reports whether it still runs"},
		{pod: podstate.Terminating, sandbox: is(NoSource), verdict: Held, reason: Terminating,
			say: "the pod is being deleted"},
		{pod: podstate.Finished, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodFinished,
			say: "the pod is {phase} and its sandbox has ended ({sandbox})"},
		{pod: podstate.Finished, sandbox: is(Absent), verdict: Stale, reason: PodFinished,
			say: "the pod is {phase}, and no runtime has the sandbox"},
		{pod: podstate.Finished, sandbox: is(NoSource), when: stopped, verdict: Stale, reason: PodFinished,
			say: "the pod is {phase} and its kubelet reported every container stopped"},
		{pod: podstate.Finished, sandbox: is(NoSource), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its kubelet did not report every container stopped"},
		{pod: podstate.None, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodGone,
			say: "the pod is gone and its sandbox has ended ({sandbox})"},
		{pod: podstate.None, sandbox: is(Absent), verdict: Stale, reason: PodGone,
			say: "the pod is gone, and no runtime has the sandbox"},
		{pod: podstate.None, sandbox: is(NoSource), when: givenUp, verdict: Stale, reason: NodeUnreachable,
			say: "the pod is gone, and the nodes that are not Ready have been so for longer than --unreachable-node-timeout"},
		{pod: podstate.None, sandbox: is(NoSource), when: unreachable, verdict: Held, reason: NodeUnreachable,
			say: "the pod is gone, but a node that could still run it is not Ready"},
		{pod: podstate.None, sandbox: is(NoSource), verdict: Stale, reason: PodGone,
			say: "the pod is gone"},
		// A READY sandbox to which no report gives a UID: neither the pod's nor
		// proven not to be. It is in use all the same.
		{pod: anyPod, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the report does not say for which pod"},
	}
}

func is(states ...Sandbox) []Sandbox { return states }

// rules is the table, with the rows that may match a pod's phase and a
// sandbox's state, in their order.
type rules struct {
	rows []rule
	of   [podstate.Finished + 1][NoSource + 1][]uint8
}

func newRules() *rules {
	t := &rules{rows: table()}
	for i := range t.rows {
		for phase := range t.of {
			for state := range t.of[phase] {
				if t.rows[i].isFor(podstate.Phase(phase), Sandbox(state)) {
					t.of[phase][state] = append(t.of[phase][state], uint8(i))
				}
			}
		}
	}
	return t
}

// judge finds the row that matches. Whatever none matches is held: a gap in
// the table must never free anything.
func (t *rules) judge(e *Evidence) Judged {
	switch {
	case e.Problem != "":
		return Judged{Verdict: Held, Reason: reasonFor(e.Problem), row: rowProblem}
	case e.Recent:
		return Judged{Verdict: InUse, Reason: Recent, onPod: e.OnPod, row: rowRecent}
	}
	for _, i := range t.of[e.Phase][e.Sandbox] {
		r := &t.rows[i]
		if r.own != nil && !r.own(e) || r.when != nil && !r.when(e) {
			continue
		}
		return Judged{Verdict: r.verdict, Reason: r.reason, Proven: r.proven && !e.Unproven && !e.Unsettled, onPod: e.OnPod, row: i}
	}
	return Judged{Verdict: Held, Reason: PhantomPod, onPod: e.OnPod, row: rowNone}
}

// overrule holds what somebody else has.
func (j *Judged) overrule(e *Evidence) {
	j.Proven = j.Proven && !e.Unproven // by now more may be known
	if j.Verdict == Stale && e.Claimant != "" {
		j.Verdict, j.Reason, j.Proven, j.claimed = Held, ClaimedByOther, false, true
	}
}

// message is the verdict as a sentence.
func (t *rules) message(j Judged, e *Evidence) string {
	switch {
	case j.claimed && e.ClaimUnread:
		return e.Claimant + " may carry the address: no CNI cache entry there tells its addresses"
	case j.claimed:
		return e.Claimant + " carries the address in the same network"
	case j.row == rowProblem:
		return e.Detail
	case j.row == rowRecent:
		return "the reservation is younger than an ADD may take"
	case j.row == rowNone:
		return "no rule covers this; please report it"
	}
	return e.fill(t.rows[j.row].say)
}

// text is the row of the table that decided.
func (t *rules) text(j Judged) string {
	switch {
	case j.row == rowProblem:
		return "cannot be read, or carries a field that is not known"
	case j.row == rowRecent:
		return "a reservation younger than 2 min"
	case j.row == rowNone:
		return "none"
	case j.claimed:
		return t.rows[j.row].text() + "; overruled: somebody else carries the address"
	case t.rows[j.row].proven && !j.Proven:
		return t.rows[j.row].text() + "; not proven here: it was not seen wherever the sandbox could run"
	}
	return t.rows[j.row].text()
}

// isFor reports whether the row is about a pod of this phase and such a sandbox.
func (r *rule) isFor(phase podstate.Phase, state Sandbox) bool {
	return (r.pod == anyPod || r.pod == phase) && (len(r.sandbox) == 0 || slices.Contains(r.sandbox, state))
}

// text is the row as the design's table writes it.
func (r *rule) text() string {
	pod, states := "any", []string{}
	if r.pod != anyPod {
		pod = r.pod.String()
	}
	for _, s := range r.sandbox {
		states = append(states, s.String())
	}
	if len(states) == 0 {
		states = append(states, "any other")
	}
	out := fmt.Sprintf("pod: %s | sandbox: %s | %s, %s", pod, strings.Join(states, ", "), r.verdict, r.reason)
	if r.verdict == Stale {
		out += map[bool]string{true: ", proven", false: ", unconfirmed"}[r.proven]
	}
	return out
}

func (e *Evidence) fill(text string) string {
	list := func(nodes []string) string {
		switch n := len(nodes); {
		case n == 0:
			return "an unknown node"
		case n > 3:
			return fmt.Sprintf("%s and %d more nodes", strings.Join(nodes[:2], ", "), n-2)
		}
		return strings.Join(nodes, ", ")
	}
	phase, deleted, uid := "", "", e.SandboxUID
	if e.Pod != nil {
		phase, deleted = e.Phase.String(), e.Pod.Deleted.UTC().Format("2006-01-02T15:04:05Z")
	}
	return strings.NewReplacer("{nodes}", list(e.Nodes), "{over}", list(e.over), "{unheard}", list(e.Unheard), "{phase}", phase,
		"{deleted}", deleted, "{uid}", uid, "{sandbox}", e.Sandbox.String()).Replace(text)
}
