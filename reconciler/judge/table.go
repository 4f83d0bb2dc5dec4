package judge

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// table is the verdict table; the first row that matches decides.
//
// The order carries the safety: a sandbox that runs is never stale whatever the API says; a pod that is starting is not
// asked for its addresses; an address that the pod carries counts whatever became of the sandbox; and only then do the
// rows follow in which something is missing.
func table() []rule {
	when := func(text string, holds func(*Evidence) bool) *condition { return &condition{text, holds} }

	malformed := when("its podref, key or range cannot be read", func(e *Evidence) bool { return e.Problem != "" && e.Problem != ippool.UnknownField })
	unknownField := when("it has a field that this version does not know", func(e *Evidence) bool { return e.Problem == ippool.UnknownField })
	recent := when("it is a reservation younger than 2 min", func(e *Evidence) bool { return e.Recent })
	deleting := when("it is a reservation that is being deleted", func(e *Evidence) bool { return e.Deleting })
	longAlone := when("it is a reservation that has had no entry, and nobody known to carry its address, for a day", func(e *Evidence) bool { return e.LongAlone })

	its := when("it is its pod, by the UID that a report gives the sandbox", func(e *Evidence) bool { return e.Ownership == ItsPod })
	notIts := when("it is not its pod, by the UID that a report gives the sandbox", func(e *Evidence) bool { return e.Ownership == NotItsPod })
	noneOfIts := when("there is no pod, or it is not its pod", func(e *Evidence) bool { return e.Phase == podstate.None || e.Ownership == NotItsPod })

	overdue := when("the pod should have been gone 5 min ago", func(e *Evidence) bool { return e.Phase == podstate.Terminating && e.Overdue })
	onPod := when("the address is on the pod", func(e *Evidence) bool { return e.OnPod })
	detached := when("neither the pod's network-status nor the complete list of its sandbox's addresses has the interface", func(e *Evidence) bool { return e.Detached })
	noStatus := when("the pod has no readable network-status", func(e *Evidence) bool { return e.Pod.Status != podstate.StatusReadable })
	trusted := when("--trust-network-status is given", func(e *Evidence) bool { return e.StatusTrusted })
	stopped := when("kubelet reported every container stopped", func(e *Evidence) bool { return e.Pod.StoppedByKubelet })
	elsewhere := when("the sandbox has ended on another node", func(e *Evidence) bool { return e.EndedElsewhere })

	unreachable := when("every node that is asked and has no fresh report is not Ready", func(e *Evidence) bool { return e.Unreachable })
	timedOut := when("every node that is asked and has no fresh report is not Ready for longer than --unreachable-node-timeout", func(e *Evidence) bool { return e.UnreachableTimedOut })
	// Without agents one node that is not Ready is enough.
	nodeNotReady := when("a node that could run it is not Ready", func(e *Evidence) bool { return e.Unreachable })
	notReadyTooLong := when("the nodes that could run it and are not Ready have been so for longer than --unreachable-node-timeout", func(e *Evidence) bool { return e.UnreachableTimedOut })
	stoppedWithoutReport := when("kubelet reported every container stopped, only the pod's own node has no fresh report, and its last one does not contradict", (*Evidence).stoppedOnItsOwnNode)

	claimed := when("somebody else carries the address in the same network", func(e *Evidence) bool { return e.Claimant != "" })
	claimUnread := when("a sandbox whose addresses are not known may carry it", func(e *Evidence) bool { return e.Claimant != "" && e.ClaimUnread })

	return []rule{
		// What cannot be read is never released.
		{id: "malformed", pod: anyPod, when: malformed, verdict: Held, reason: Malformed, say: "{detail}"},
		{id: "unknown-field", pod: anyPod, when: unknownField, verdict: Held, reason: UnknownField, say: "{detail}"},
		{id: "recent", pod: anyPod, when: recent, verdict: InUse, reason: Recent,
			say: "the reservation is younger than an ADD may take"},
		{id: "being-deleted", pod: anyPod, when: deleting, verdict: Held, reason: BeingDeleted,
			say: "the reservation is being deleted already, and stays until its finalizers are gone"},
		{id: "ready-no-such-pod", pod: anyPod, own: noneOfIts, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the API knows no such pod: its address is in use"},
		{id: "ready-finished", pod: podstate.Finished, own: its, sandbox: is(Ready), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its sandbox still runs on {nodes}"},
		{id: "ready-stuck-terminating", pod: podstate.Terminating, own: its, sandbox: is(Ready), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}, and its sandbox still runs on {nodes}"},
		{id: "ready-terminating", pod: podstate.Terminating, own: its, sandbox: is(Ready), verdict: Held, reason: Terminating,
			say: "the pod is being deleted, and its sandbox still runs on {nodes}"},
		{id: "ready-detached", pod: podstate.Live, own: its, sandbox: is(Ready), when: detached, verdict: Stale, reason: AddressNotOnPod, by: interfaceDetached,
			say: "the pod's sandbox runs on {nodes} without the interface that the entry names, and the pod's network-status does not have it"},
		{id: "ready", pod: anyPod, own: its, sandbox: is(Ready), verdict: InUse, reason: SandboxReady,
			say: "the pod's sandbox runs on {nodes}"},
		{id: "pending-replaced", pod: podstate.Pending, own: notIts, sandbox: is(Stopped, Gone, NodeDead), verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{id: "pending-absent", pod: podstate.Pending, sandbox: is(Absent), verdict: Stale, reason: PodReplaced, by: sandboxAbsent,
			say: "no runtime has this sandbox, while the pod of this name is still Pending"},
		{id: "pending", pod: podstate.Pending, verdict: InUse, reason: PodPending,
			say: "the pod is Pending: its network may be being set up, so it is not asked for its addresses"},
		{id: "on-pod", pod: podstate.Live, when: onPod, verdict: InUse, reason: AddressOnPod,
			say: "the running pod carries the address"},
		{id: "attached", pod: anyPod, sandbox: is(Attached), verdict: Held, reason: AttachedReason,
			say: "a CNI cache on {nodes} has the sandbox attached, and the runtime does not list it: it is being set up, or lost its DEL"},
		{id: "not-ready-stuck-terminating", pod: anyPod, sandbox: is(NotReady), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; its sandbox on {nodes} is not ready, and its network not known to be closed"},
		{id: "not-ready-elsewhere", pod: anyPod, sandbox: is(NotReady), when: elsewhere, verdict: Held, reason: SandboxNotReady,
			say: "the sandbox has ended on another node, and the report of {nodes} has it, too, as one that may be running"},
		{id: "not-ready", pod: anyPod, sandbox: is(NotReady), verdict: Held, reason: SandboxNotReady,
			say: "the sandbox on {nodes} is not ready, but its network is not known to be closed: the address may still answer"},
		{id: "node-dead", pod: anyPod, sandbox: is(NodeDead), verdict: Stale, proven: true, reason: NodeDeadReason, by: sandboxEnded,
			say: "{gone} is proven dead (out of service, or booted again since the sandbox was seen)"},
		{id: "node-missing", pod: anyPod, sandbox: is(NodeMissing), verdict: Stale, reason: NodeMissingReason, by: nodeObjectGone,
			say: "the Node object of {gone} is gone"},
		{id: "finished-without-report", pod: podstate.Finished, sandbox: is(NoFreshReport), when: stoppedWithoutReport, verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported every container stopped; {without} has no fresh SandboxReport"},
		{id: "gone-long-alone", pod: podstate.None, sandbox: is(NoFreshReport), when: longAlone, verdict: Stale, reason: PodGone, by: reservedAlone,
			say: "the pod is gone, and for a day no pool has had an entry, and no report a sandbox, for the reservation; {without} has no fresh SandboxReport"},
		{id: "without-report-timeout", pod: anyPod, sandbox: is(NoFreshReport), when: timedOut, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "{without} has been not Ready for longer than --unreachable-node-timeout"},
		{id: "without-report-unreachable", pod: anyPod, sandbox: is(NoFreshReport), when: unreachable, verdict: Held, reason: NodeUnreachable,
			say: "{without} is not Ready and has no fresh SandboxReport: the sandbox may run on behind a partition"},
		{id: "without-report", pod: anyPod, sandbox: is(NoFreshReport), verdict: Held, reason: NoFreshReportReason,
			say: "{without} could run the sandbox, and no fresh SandboxReport reports whether it does"},
		{id: "live-replaced", pod: podstate.Live, own: notIts, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{id: "live-ended", pod: podstate.Live, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxReplaced, by: sandboxEnded,
			say: "the sandbox has ended ({sandbox}), and the running pod does not carry the address"},
		{id: "live-no-network-status", pod: podstate.Live, sandbox: is(Absent, NoSource), when: noStatus, verdict: Held, reason: NetworkStatusMissing,
			say: "the running pod has no readable network-status, so nothing says which addresses it carries"},
		{id: "live-not-on-pod", pod: podstate.Live, sandbox: is(Absent), verdict: Stale, reason: AddressNotOnPod, by: sandboxAbsent,
			say: "the running pod's network-status does not have the address"},
		{id: "live-not-on-pod-trusted", pod: podstate.Live, sandbox: is(NoSource), when: trusted, verdict: Stale, reason: AddressNotOnPod, by: trustedStatus,
			say: "the running pod's network-status does not have the address, and --trust-network-status is given"},
		{id: "live-not-on-pod-untrusted", pod: podstate.Live, sandbox: is(NoSource), verdict: Held, reason: AddressNotOnPod,
			say: "the running pod's network-status does not have the address; whoever may edit the pod can remove it there, and no node agent reports what the pod has"},
		{id: "terminating-ended", pod: podstate.Terminating, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxStopped, by: sandboxEnded,
			say: "the pod is being deleted and its sandbox has ended ({sandbox})"},
		{id: "terminating-absent", pod: podstate.Terminating, sandbox: is(Absent), verdict: Stale, reason: SandboxStopped, by: sandboxAbsent,
			say: "the pod is being deleted, and no runtime has the sandbox"},
		{id: "terminating-timeout", pod: podstate.Terminating, sandbox: is(NoSource), when: notReadyTooLong, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "the pod is being deleted, and its node {nodes} has been not Ready for longer than --unreachable-node-timeout"},
		{id: "terminating-unreachable", pod: podstate.Terminating, sandbox: is(NoSource), when: nodeNotReady, verdict: Held, reason: NodeUnreachable,
			say: "the pod is being deleted, and its node {nodes} is not Ready: its containers may run on"},
		{id: "terminating-stuck", pod: podstate.Terminating, sandbox: is(NoSource), when: overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; without a node agent nothing reports whether it still runs"},
		{id: "terminating", pod: podstate.Terminating, sandbox: is(NoSource), verdict: Held, reason: Terminating,
			say: "the pod is being deleted"},
		{id: "finished-ended", pod: podstate.Finished, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodFinished, by: sandboxEnded,
			say: "the pod is {phase} and its sandbox has ended ({sandbox})"},
		{id: "finished-absent", pod: podstate.Finished, sandbox: is(Absent), verdict: Stale, reason: PodFinished, by: sandboxAbsent,
			say: "the pod is {phase}, and no runtime has the sandbox"},
		{id: "finished-stopped", pod: podstate.Finished, sandbox: is(NoSource), when: stopped, verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported every container stopped"},
		{id: "finished-running", pod: podstate.Finished, sandbox: is(NoSource), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its kubelet did not report every container stopped"},
		{id: "gone-ended", pod: podstate.None, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodGone, by: sandboxEnded,
			say: "the pod is gone and its sandbox has ended ({sandbox})"},
		{id: "gone-absent", pod: podstate.None, sandbox: is(Absent), verdict: Stale, reason: PodGone, by: sandboxAbsent,
			say: "the pod is gone, and no runtime has the sandbox"},
		{id: "gone-timeout", pod: podstate.None, sandbox: is(NoSource), when: notReadyTooLong, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "the pod is gone, and the nodes that are not Ready have been so for longer than --unreachable-node-timeout"},
		{id: "gone-unreachable", pod: podstate.None, sandbox: is(NoSource), when: nodeNotReady, verdict: Held, reason: NodeUnreachable,
			say: "the pod is gone, but a node that could still run it is not Ready"},
		{id: "gone", pod: podstate.None, sandbox: is(NoSource), verdict: Stale, reason: PodGone, by: podGone,
			say: "the pod is gone"},
		// A READY sandbox to which no report gives a UID: neither the pod's nor
		// proven not to be. It is in use all the same.
		{id: "ready-unknown-pod", pod: anyPod, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the report does not say for which pod"},
		// A gap in the table never releases anything.
		{id: "no-rule", pod: anyPod, verdict: Held, reason: NoRule, say: "no rule covers this; please report it"},

		// A verdict of Stale does not stand where one of these matches.
		{id: "claimed-unread", pod: anyPod, when: claimUnread, verdict: Held, reason: ClaimedByOther, overrules: true,
			say: "{claimant} may carry the address: no CNI cache entry there tells its addresses"},
		{id: "claimed", pod: anyPod, when: claimed, verdict: Held, reason: ClaimedByOther, overrules: true,
			say: "{claimant} carries the address in the same network"},
	}
}

// doubts are the conditions under which a verdict whose row is proven must be confirmed as the others.
func doubts() []condition {
	return []condition{
		{"it was not seen wherever the sandbox could run, or it is a reservation that stands alone", func(e *Evidence) bool { return e.Unproven }},
		{"the agent of the Pending pod's node may not know of its sandbox yet", func(e *Evidence) bool { return e.AgentMayNotKnow }},
	}
}
