package reconciler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Verdict is what is to become of an allocation or reservation.
type Verdict string

const (
	// InUse: there is proof of use, or it is too early to ask.
	InUse Verdict = "InUse"
	// Held: not proven stale; the reason says what stands against it.
	Held Verdict = "Held"
	// Stale: to be released, at once if proven, else after --confirm-after.
	Stale Verdict = "Stale"
)

// Reason is the same word in the CLI, metrics, events and logs.
type Reason string

const (
	Malformed            Reason = "Malformed"
	UnknownField         Reason = "UnknownField"
	PhantomPod           Reason = "PhantomPod"
	TerminalButRunning   Reason = "TerminalButRunning"
	Terminating          Reason = "Terminating"
	StuckTerminating     Reason = "StuckTerminating"
	SandboxReady         Reason = "SandboxReady"
	PodReplaced          Reason = "PodReplaced"
	PodPending           Reason = "PodPending"
	AddressOnPod         Reason = "AddressOnPod"
	AttachedReason       Reason = "Attached"
	SandboxNotReady      Reason = "SandboxNotReady"
	NodeDeadReason       Reason = "NodeDead"
	NodeMissingReason    Reason = "NodeMissing"
	PodFinished          Reason = "PodFinished"
	NodeUnreachable      Reason = "NodeUnreachable"
	NodeUnheard          Reason = "NodeUnheard"
	SandboxReplaced      Reason = "SandboxReplaced"
	NetworkStatusMissing Reason = "NetworkStatusMissing"
	AddressNotOnPod      Reason = "AddressNotOnPod"
	SandboxStopped       Reason = "SandboxStopped"
	PodGone              Reason = "PodGone"
	ClaimedByOther       Reason = "ClaimedByOther"
	Recent               Reason = "Recent"
)

// Judged is a verdict with why.
type Judged struct {
	Verdict Verdict
	Reason  Reason
	Proven  bool   // of a Stale verdict: may be released at once
	Message string // a sentence
	Rule    string // the row of the table, as text
}

// rule is one row of the verdict table. A nil column matches everything.
type rule struct {
	pod     podstate.Phase
	own     func(*Evidence) bool
	sandbox []Sandbox
	when    func(*Evidence) bool
	verdict Verdict
	proven  bool
	reason  Reason
	say     string // {pod}, {sandbox}, {nodes}, {unheard}, {phase} are filled in
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
func givenUp(e *Evidence) bool     { return e.Unreachable && e.UnreachableOK }

// stoppedUnheard takes kubelet's word for the pod that it speaks of only: the
// sandbox of an earlier pod of the name may run on, on a node that is not heard.
func stoppedUnheard(e *Evidence) bool {
	return e.Pod.StoppedByKubelet && !e.StaleSaysRun && e.Own != NotItsPod
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
		{pod: anyPod, sandbox: is(NotReady), verdict: Held, reason: SandboxNotReady,
			say: "the sandbox on {nodes} is not ready, but its network is not known to be closed: the address may still answer"},
		{pod: anyPod, sandbox: is(NodeDead), verdict: Stale, proven: true, reason: NodeDeadReason,
			say: "{nodes} is proven dead (out of service, or booted anew since the sandbox was seen)"},
		{pod: anyPod, sandbox: is(NodeMissing), verdict: Stale, reason: NodeMissingReason,
			say: "the Node object of {nodes} is gone"},
		{pod: podstate.Finished, sandbox: is(Unheard), when: stoppedUnheard, verdict: Stale, reason: PodFinished,
			say: "the pod is {phase} and its kubelet reported every container stopped; the agent on {unheard} is not heard"},
		{pod: anyPod, sandbox: is(Unheard), when: givenUp, verdict: Stale, reason: NodeUnreachable,
			say: "{unheard} has been not Ready for longer than --unreachable-node-timeout"},
		{pod: anyPod, sandbox: is(Unheard), when: unreachable, verdict: Held, reason: NodeUnreachable,
			say: "{unheard} is not Ready and its agent is not heard: the sandbox may run on behind a partition"},
		{pod: anyPod, sandbox: is(Unheard), verdict: Held, reason: NodeUnheard,
			say: "{unheard} could run the sandbox, and no fresh SandboxReport says whether it does"},
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
			say: "the pod should have been gone since {deleted}; without a node agent nothing says whether it still runs"},
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

// judge finds the row that matches. Whatever none matches is held: a gap in
// the table must never free anything.
func (e *Evidence) judge(rules []rule) Judged {
	if e.Problem != "" {
		return Judged{Verdict: Held, Reason: Reason(e.Problem), Message: e.Detail, Rule: "cannot be read, or carries a field that is not known"}
	}
	if e.Recent {
		return Judged{Verdict: InUse, Reason: Recent, Message: "the reservation is younger than an ADD may take", Rule: "a reservation younger than 2 min"}
	}
	for _, r := range rules {
		if r.matches(e) {
			j := Judged{Verdict: r.verdict, Reason: r.reason, Proven: r.proven, Message: e.fill(r.say), Rule: r.text()}
			if r.verdict == Stale && e.Claimant != "" {
				return Judged{Verdict: Held, Reason: ClaimedByOther,
					Message: e.Claimant + " carries the address in the same network", Rule: j.Rule + "; overruled: somebody else carries the address"}
			}
			return j
		}
	}
	return Judged{Verdict: Held, Reason: PhantomPod, Message: "no rule covers this; please report it", Rule: "none"}
}

func (r rule) matches(e *Evidence) bool {
	return (r.pod == anyPod || r.pod == e.Phase) &&
		(len(r.sandbox) == 0 || slices.Contains(r.sandbox, e.Sandbox)) &&
		(r.own == nil || r.own(e)) && (r.when == nil || r.when(e))
}

// text is the row as the design's table writes it.
func (r rule) text() string {
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
	return strings.NewReplacer("{nodes}", list(e.Nodes), "{unheard}", list(e.Unheard), "{phase}", phase,
		"{deleted}", deleted, "{uid}", uid, "{sandbox}", e.Sandbox.String()).Replace(text)
}
