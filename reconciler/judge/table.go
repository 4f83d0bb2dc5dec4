package judge

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// table is the verdict table: the first row that matches decides.
//
// The order of the rows is what makes them safe. A running sandbox is never Stale, whatever the API says. A Pending pod
// need not have its addresses yet. An address that the pod carries is in use, whatever happened to the sandbox.
func table() []rule {
	when := func(text string, holds func(*Evidence) bool) *condition { return &condition{text, holds} }

	malformed := when("its podref, key or range cannot be parsed",
		func(e *Evidence) bool { return e.Problem != "" && e.Problem != ippool.UnknownField })
	unknownField := when("it has a field that this version does not know",
		func(e *Evidence) bool { return e.Problem == ippool.UnknownField })
	unsupportedRange := when("its pool has a range in which a key may mean several addresses",
		func(e *Evidence) bool { return e.Problem == ippool.UnsupportedRange })
	recent := when("it is a reservation younger than 2 minutes", func(e *Evidence) bool { return e.Recent })
	deleting := when("it is a reservation that is being deleted", func(e *Evidence) bool { return e.Deleting })
	longAlone := when("for a day the reservation has had no allocation and no known carrier",
		func(e *Evidence) bool { return e.LongAlone })

	its := when("the sandbox is this pod's", func(e *Evidence) bool { return e.Ownership == ItsPod })
	notIts := when("the sandbox is another pod's", func(e *Evidence) bool { return e.Ownership == NotItsPod })
	noneOfIts := when("the pod does not exist, or the sandbox is another pod's",
		func(e *Evidence) bool { return e.Phase == podstate.None || e.Ownership == NotItsPod })

	overdue := when("the pod's deletion is overdue by 5 minutes",
		func(e *Evidence) bool { return e.Phase == podstate.Terminating && e.Overdue })
	onPod := when("the pod carries the address", func(e *Evidence) bool { return e.OnPod })
	detached := when("neither the pod's network-status nor the sandbox's complete address list has the interface",
		func(e *Evidence) bool { return e.Detached })
	networkComplete := when("a fresh report of the pod's node lists a READY sandbox of the pod with all its addresses, "+
		"and no sandbox of the pod may carry this one", func(e *Evidence) bool { return e.NetworkComplete })
	superseded := when("a younger sandbox of the pod, in a fresh report of its node, has an allocation of the same "+
		"interface in the pool, and no sandbox of the pod may carry the address",
		func(e *Evidence) bool { return e.Superseded })
	noStatus := when("the pod has no readable network-status",
		func(e *Evidence) bool { return e.Pod.Status != podstate.StatusReadable })
	trusted := when("--trust-network-status is set", func(e *Evidence) bool { return e.StatusTrusted })
	stopped := when("kubelet reported that every container stopped",
		func(e *Evidence) bool { return e.Pod.StoppedByKubelet })
	elsewhere := when("another node reports that the sandbox has ended",
		func(e *Evidence) bool { return e.EndedElsewhere })

	unreachable := when("all nodes that could run it and lack a fresh report are not Ready",
		func(e *Evidence) bool { return e.Unreachable })
	timedOut := when("all nodes that could run it and lack a fresh report have been not Ready for "+
		"--unreachable-node-timeout",
		func(e *Evidence) bool { return e.UnreachableTimedOut })
	// Without agents one node that is not Ready is enough.
	nodeNotReady := when("a node that could run it is not Ready", func(e *Evidence) bool { return e.Unreachable })
	notReadyTooLong := when("all nodes that could run it and are not Ready have been so for --unreachable-node-timeout",
		func(e *Evidence) bool { return e.UnreachableTimedOut })
	nodesUnknown := when("it is not known which nodes could run it",
		func(e *Evidence) bool { return e.NodesUnknown })
	stoppedWithoutReport := when("kubelet reported that every container stopped, only the pod's own node lacks a fresh "+
		"report, and its last report does not contradict", (*Evidence).stoppedOnItsOwnNode)

	claimed := when("another pod or sandbox carries the address in the same network",
		func(e *Evidence) bool { return e.Rival != "" })
	claimUnread := when("a sandbox or pod whose addresses are unknown may carry the address",
		func(e *Evidence) bool { return e.Rival != "" && e.RivalUnread })

	guest := when("a guest on the same network has the address, by its VirtualMachineInstance",
		func(e *Evidence) bool { return e.Rival != "" && e.RivalIsGuest })
	guestUnknown := when("a machine on the same network may have the address, and its guest is unknown",
		func(e *Evidence) bool { return e.Rival != "" && e.GuestUnknown })
	claimExists := when("its IPAMClaim exists", func(e *Evidence) bool { return e.IPAMClaim == ClaimExists })
	claimUnknown := when("IPAMClaims could not be read", func(e *Evidence) bool { return e.IPAMClaim.mayExist() })
	claimGone := when("its IPAMClaim does not exist", func(e *Evidence) bool { return e.IPAMClaim == ClaimMissing })

	return []rule{
		// An allocation or reservation that cannot be parsed, or whose address is not certain, is held.
		{id: "unsupported-range", pod: anyPod, when: unsupportedRange, verdict: Held, reason: UnsupportedRange,
			say: "{detail}"},
		{id: "malformed", pod: anyPod, when: malformed, verdict: Held, reason: Malformed, say: "{detail}"},
		{id: "unknown-field", pod: anyPod, when: unknownField, verdict: Held, reason: UnknownField, say: "{detail}"},
		{id: "recent", pod: anyPod, when: recent, verdict: InUse, reason: Recent,
			say: "the reservation is younger than 2 minutes: an ADD or DEL may still be in progress"},
		{id: "being-deleted", pod: anyPod, when: deleting, verdict: Held, reason: BeingDeleted,
			say: "the reservation is being deleted and waits for its finalizers"},
		{id: "ready-no-such-pod", pod: anyPod, own: noneOfIts, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes} and the API has no such pod: the address is in use"},
		{id: "ready-finished", pod: podstate.Finished, own: its, sandbox: is(Ready),
			verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its sandbox still runs on {nodes}"},
		{id: "ready-stuck-terminating", pod: podstate.Terminating, own: its, sandbox: is(Ready), when: overdue,
			verdict: Held, reason: StuckTerminating,
			say: "the pod should have been deleted by {deleted}, but its sandbox still runs on {nodes}"},
		{id: "ready-terminating", pod: podstate.Terminating, own: its, sandbox: is(Ready), verdict: Held, reason: Terminating,
			say: "the pod is being deleted, and its sandbox still runs on {nodes}"},
		{id: "ready-detached", pod: podstate.Live, own: its, sandbox: is(Ready), when: detached,
			verdict: Held, reason: InterfaceUnplugged,
			say: "the pod's sandbox runs on {nodes} without the interface of this allocation; if it is plugged in again, it " +
				"gets this address, and nothing is written"},
		{id: "ready", pod: anyPod, own: its, sandbox: is(Ready), verdict: InUse, reason: SandboxReady,
			say: "the pod's sandbox runs on {nodes}"},
		{id: "pending-replaced", pod: podstate.Pending, own: notIts, sandbox: is(Stopped, Gone, NodeDead),
			verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name (UID {uid}) and has ended ({sandbox})"},
		{id: "pending-absent", pod: podstate.Pending, sandbox: is(Absent),
			verdict: Stale, reason: PodReplaced, by: sandboxAbsent,
			say: "no runtime has this sandbox, and the pod of this name is still Pending"},
		{id: "pending-without-address", pod: podstate.Pending, sandbox: is(Stopped, Gone), when: networkComplete,
			verdict: Stale, reason: SandboxReplaced, by: pendingWithout,
			say: "the sandbox has ended ({sandbox}), and the Pending pod's running sandbox has its network without the address"},
		{id: "pending-superseded", pod: podstate.Pending, sandbox: is(Stopped, Gone), when: superseded,
			verdict: Stale, reason: SandboxReplaced, by: pendingWithout,
			say: "the sandbox has ended ({sandbox}), and a younger sandbox of the Pending pod has its own allocation"},
		{id: "pending", pod: podstate.Pending, verdict: InUse, reason: PodPending,
			say: "the pod is Pending: its network may not be complete yet"},
		{id: "on-pod", pod: podstate.Live, when: onPod, verdict: InUse, reason: AddressOnPod,
			say: "the running pod carries the address"},
		{id: "attached", pod: anyPod, sandbox: is(Attached), verdict: Held, reason: AttachedReason,
			say: "a CNI cache on {nodes} has the sandbox, but the runtime does not list it: it is starting, or its DEL " +
				"was lost"},
		{id: "not-ready-stuck-terminating", pod: anyPod, sandbox: is(NotReady), when: overdue,
			verdict: Held, reason: StuckTerminating,
			say: "the pod should have been deleted by {deleted}; its sandbox on {nodes} is not ready, and its network " +
				"may still exist"},
		{id: "not-ready-elsewhere", pod: anyPod, sandbox: is(NotReady), when: elsewhere,
			verdict: Held, reason: SandboxNotReady,
			say: "another node reports that the sandbox has ended, but {nodes} reports that it may still run"},
		{id: "not-ready", pod: anyPod, sandbox: is(NotReady), verdict: Held, reason: SandboxNotReady,
			say: "the sandbox on {nodes} is not ready, but its network may still exist: the address may still answer"},
		{id: "node-dead", pod: anyPod, sandbox: is(NodeDead),
			verdict: Stale, proven: true, reason: NodeDeadReason, by: sandboxEnded,
			say: "{gone} is proven dead: it is out of service"},
		{id: "node-missing", pod: anyPod, sandbox: is(NodeMissing),
			verdict: Stale, reason: NodeMissingReason, by: nodeObjectGone,
			say: "the Node object of {gone} does not exist"},
		{id: "nodes-unknown", pod: anyPod, sandbox: is(NoFreshReport), when: nodesUnknown,
			verdict: Held, reason: NodesUnknown, by: assertedByPerson,
			say: "it is unknown which nodes could run the sandbox: {unknown}"},
		{id: "finished-without-report", pod: podstate.Finished, sandbox: is(NoFreshReport), when: stoppedWithoutReport,
			verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported that every container stopped; no fresh " +
				"SandboxReport exists for {without}"},
		{id: "gone-long-alone", pod: podstate.None, sandbox: is(NoFreshReport), when: longAlone,
			verdict: Stale, reason: PodGone, by: reservedAlone,
			say: "{nopod}, and for a day the reservation has had no allocation and no known carrier; " +
				"no fresh SandboxReport exists for {without}"},
		{id: "without-report-timeout", pod: anyPod, sandbox: is(NoFreshReport), when: timedOut,
			verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "not Ready for longer than --unreachable-node-timeout: {without}"},
		{id: "without-report-unreachable", pod: anyPod, sandbox: is(NoFreshReport), when: unreachable,
			verdict: Held, reason: NodeUnreachable, by: assertedByPerson,
			say: "no fresh SandboxReport exists for {without} (not Ready): the sandbox may still run on the unreachable node"},
		{id: "without-report", pod: anyPod, sandbox: is(NoFreshReport),
			verdict: Held, reason: NoFreshReportReason, by: assertedByPerson,
			say: "the sandbox may run on {without}, for which no fresh SandboxReport exists"},
		{id: "live-replaced", pod: podstate.Live, own: notIts, sandbox: is(Stopped, Gone),
			verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name (UID {uid}) and has ended ({sandbox})"},
		{id: "live-ended", pod: podstate.Live, sandbox: is(Stopped, Gone),
			verdict: Stale, proven: true, reason: SandboxReplaced, by: sandboxEnded,
			say: "the sandbox has ended ({sandbox}), and the running pod does not carry the address"},
		{id: "live-no-network-status", pod: podstate.Live, sandbox: is(Absent, NoSource), when: noStatus,
			verdict: Held, reason: NetworkStatusMissing, by: assertedByPerson,
			say: "the running pod has no readable network-status, so its addresses are unknown"},
		{id: "live-not-on-pod", pod: podstate.Live, sandbox: is(Absent),
			verdict: Stale, reason: AddressNotOnPod, by: sandboxAbsent,
			say: "no runtime has the sandbox, and the running pod's network-status does not list the address"},
		{id: "live-not-on-pod-trusted", pod: podstate.Live, sandbox: is(NoSource), when: trusted,
			verdict: Stale, reason: AddressNotOnPod, by: trustedStatus,
			say: "the running pod's network-status does not list the address, and --trust-network-status is set"},
		{id: "live-not-on-pod-untrusted", pod: podstate.Live, sandbox: is(NoSource), verdict: Held, reason: AddressNotOnPod,
			say: "the running pod's network-status does not list the address; this is no proof, because whoever may edit " +
				"the pod can remove it there"},
		{id: "terminating-ended", pod: podstate.Terminating, sandbox: is(Stopped, Gone),
			verdict: Stale, proven: true, reason: SandboxStopped, by: sandboxEnded,
			say: "the pod is being deleted and its sandbox has ended ({sandbox})"},
		{id: "terminating-absent", pod: podstate.Terminating, sandbox: is(Absent),
			verdict: Stale, reason: SandboxStopped, by: sandboxAbsent,
			say: "the pod is being deleted, and no runtime has the sandbox"},
		{id: "terminating-timeout", pod: podstate.Terminating, sandbox: is(NoSource), when: notReadyTooLong,
			verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "the pod is being deleted, and its node {nodes} has been not Ready for longer than --unreachable-node-timeout"},
		{id: "terminating-unreachable", pod: podstate.Terminating, sandbox: is(NoSource), when: nodeNotReady,
			verdict: Held, reason: NodeUnreachable, by: assertedByPerson,
			say: "the pod is being deleted, and its node {nodes} is not Ready: its containers may still run"},
		{id: "terminating-stuck", pod: podstate.Terminating, sandbox: is(NoSource), when: overdue,
			verdict: Held, reason: StuckTerminating, by: assertedByPerson,
			say: "the pod should have been deleted by {deleted}; no node agent reports whether it still runs"},
		{id: "terminating", pod: podstate.Terminating, sandbox: is(NoSource), verdict: Held, reason: Terminating,
			say: "the pod is being deleted"},
		{id: "finished-ended", pod: podstate.Finished, sandbox: is(Stopped, Gone),
			verdict: Stale, proven: true, reason: PodFinished, by: sandboxEnded,
			say: "the pod is {phase} and its sandbox has ended ({sandbox})"},
		{id: "finished-absent", pod: podstate.Finished, sandbox: is(Absent),
			verdict: Stale, reason: PodFinished, by: sandboxAbsent,
			say: "the pod is {phase}, and no runtime has the sandbox"},
		{id: "finished-stopped", pod: podstate.Finished, sandbox: is(NoSource), when: stopped,
			verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported that every container stopped"},
		{id: "finished-running", pod: podstate.Finished, sandbox: is(NoSource), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its kubelet did not report that every container stopped"},
		{id: "gone-ended", pod: podstate.None, sandbox: is(Stopped, Gone),
			verdict: Stale, proven: true, reason: PodGone, by: sandboxEnded,
			say: "{nopod} and its sandbox has ended ({sandbox})"},
		{id: "gone-absent", pod: podstate.None, sandbox: is(Absent), verdict: Stale, reason: PodGone, by: sandboxAbsent,
			say: "{nopod}, and no runtime has the sandbox"},
		{id: "gone-nodes-unknown", pod: podstate.None, sandbox: is(NoSource), when: nodesUnknown,
			verdict: Held, reason: NodesUnknown, by: assertedByPerson,
			say: "{nopod}, but it is unknown which nodes could still run it: {unknown}"},
		{id: "gone-timeout", pod: podstate.None, sandbox: is(NoSource), when: notReadyTooLong,
			verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "{nopod}, and the nodes that are not Ready have been so for longer than " +
				"--unreachable-node-timeout"},
		{id: "gone-unreachable", pod: podstate.None, sandbox: is(NoSource), when: nodeNotReady,
			verdict: Held, reason: NodeUnreachable, by: assertedByPerson,
			say: "{nopod}, but it may still run on {notready}: not Ready"},
		{id: "gone", pod: podstate.None, sandbox: is(NoSource), verdict: Stale, reason: PodGone, by: podGone,
			say: "{nopod}"},
		// A READY sandbox without a UID: it is in use, whoever owns it.
		{id: "ready-unknown-pod", pod: anyPod, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and its report does not name the pod"},
		// A gap in the table never releases anything.
		{id: "no-rule", pod: anyPod, verdict: Held, reason: NoRule, say: "no rule covers this; please report it as a bug"},

		// These overrule a row that says Stale.
		{id: "ipam-claim", pod: anyPod, when: claimExists, verdict: Held, reason: Claimed, overrules: true,
			say: "{detail} exists: its virtual machine keeps the address while it is stopped, too"},
		{id: "ipam-claim-unknown", pod: anyPod, when: claimUnknown, verdict: Held, reason: ClaimUnknown, overrules: true,
			say: "{detail}"},
		{id: "guest-address", pod: anyPod, when: guest, verdict: Held, reason: GuestAddress, overrules: true,
			say: "{claimant} has the address in its guest: it did not change with the machine's pod"},
		{id: "guest-unknown", pod: anyPod, when: guestUnknown, verdict: Held, reason: GuestUnknown, overrules: true,
			say: "{claimant} may have the address in its guest: {unknown}"},
		{id: "claimed-unread", pod: anyPod, when: claimUnread, verdict: Held, reason: ClaimedByOther, overrules: true,
			say: "{claimant} may carry the address: {unknown}"},
		{id: "claimed", pod: anyPod, when: claimed, verdict: Held, reason: ClaimedByOther, overrules: true,
			say: "{claimant} carries the address in the same network"},
		// The last one leaves the item Stale, and makes it unconfirmed.
		{id: "ipam-claim-gone", pod: anyPod, when: claimGone, verdict: Stale, reason: ClaimGone, overrules: true,
			say: "{detail} does not exist, and nothing runs with the address"},
	}
}

// doubts are the conditions that make a proven verdict unconfirmed.
func doubts() []condition {
	return []condition{
		{"not every node that could run the sandbox confirms this, or the reservation stands alone",
			func(e *Evidence) bool { return e.Unproven }},
		{"the agent of the Pending pod's node may not know its sandbox yet",
			func(e *Evidence) bool { return e.AgentMayNotKnow }},
	}
}
