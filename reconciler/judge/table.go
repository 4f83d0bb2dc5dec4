package judge

import "github.com/ip-reconcile/ip-reconcile/podstate"

// table is the verdict table; the first row that matches decides.
//
// The order carries the safety: a sandbox that runs is never stale whatever the
// API says; a pod that is starting is not asked for its addresses; an address
// that the pod carries counts whatever became of the sandbox; and only then do
// the rows follow in which something is missing.
func table() []rule {
	c := conditions()
	return []rule{
		// What cannot be read is never freed.
		{id: "malformed", pod: anyPod, when: c.malformed, verdict: Held, reason: Malformed, say: "{detail}"},
		{id: "unknown-field", pod: anyPod, when: c.unknownField, verdict: Held, reason: UnknownField, say: "{detail}"},
		{id: "recent", pod: anyPod, when: c.recent, verdict: InUse, reason: Recent,
			say: "the reservation is younger than an ADD may take"},
		{id: "being-deleted", pod: anyPod, when: c.deleting, verdict: Held, reason: BeingDeleted,
			say: "the reservation is being deleted already, and stays until its finalizers are gone"},
		{id: "ready-no-such-pod", pod: anyPod, own: c.noneOfIts, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the API knows no such pod: its address is in use"},
		{id: "ready-finished", pod: podstate.Finished, own: c.its, sandbox: is(Ready), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its sandbox still runs on {nodes}"},
		{id: "ready-stuck-terminating", pod: podstate.Terminating, own: c.its, sandbox: is(Ready), when: c.overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}, and its sandbox still runs on {nodes}"},
		{id: "ready-terminating", pod: podstate.Terminating, own: c.its, sandbox: is(Ready), verdict: Held, reason: Terminating,
			say: "the pod is being deleted, and its sandbox still runs on {nodes}"},
		{id: "ready-detached", pod: podstate.Live, own: c.its, sandbox: is(Ready), when: c.detached, verdict: Stale, reason: AddressNotOnPod, by: interfaceDetached,
			say: "the pod's sandbox runs on {nodes} without the interface that the entry names, and the pod's network-status does not have it"},
		{id: "ready", pod: anyPod, own: c.its, sandbox: is(Ready), verdict: InUse, reason: SandboxReady,
			say: "the pod's sandbox runs on {nodes}"},
		{id: "pending-replaced", pod: podstate.Pending, own: c.notIts, sandbox: is(Stopped, Gone, NodeDead), verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{id: "pending-absent", pod: podstate.Pending, sandbox: is(Absent), verdict: Stale, reason: PodReplaced, by: sandboxAbsent,
			say: "no runtime has this sandbox, while the pod of this name is still Pending"},
		{id: "pending", pod: podstate.Pending, verdict: InUse, reason: PodPending,
			say: "the pod is Pending: its network may be being set up, so it is not asked for its addresses"},
		{id: "on-pod", pod: podstate.Live, when: c.onPod, verdict: InUse, reason: AddressOnPod,
			say: "the running pod carries the address"},
		{id: "attached", pod: anyPod, sandbox: is(Attached), verdict: Held, reason: AttachedReason,
			say: "a CNI cache on {nodes} has the sandbox attached, and the runtime does not list it: it is being set up, or lost its DEL"},
		{id: "not-ready-stuck-terminating", pod: anyPod, sandbox: is(NotReady), when: c.overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; its sandbox on {nodes} is not ready, and its network not known to be closed"},
		{id: "not-ready-elsewhere", pod: anyPod, sandbox: is(NotReady), when: c.elsewhere, verdict: Held, reason: SandboxNotReady,
			say: "the sandbox has ended on another node, and the report of {nodes} has it, too, as one that may be running"},
		{id: "not-ready", pod: anyPod, sandbox: is(NotReady), verdict: Held, reason: SandboxNotReady,
			say: "the sandbox on {nodes} is not ready, but its network is not known to be closed: the address may still answer"},
		{id: "node-dead", pod: anyPod, sandbox: is(NodeDead), verdict: Stale, proven: true, reason: NodeDeadReason, by: sandboxEnded,
			say: "{gone} is proven dead (out of service, or booted again since the sandbox was seen)"},
		{id: "node-missing", pod: anyPod, sandbox: is(NodeMissing), verdict: Stale, reason: NodeMissingReason, by: nodeObjectGone,
			say: "the Node object of {gone} is gone"},
		{id: "finished-without-report", pod: podstate.Finished, sandbox: is(NoFreshReport), when: c.stoppedWithoutReport, verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported every container stopped; {without} has no fresh SandboxReport"},
		{id: "gone-long-alone", pod: podstate.None, sandbox: is(NoFreshReport), when: c.longAlone, verdict: Stale, reason: PodGone, by: reservedAlone,
			say: "the pod is gone, and for a day no pool has had an entry, and no report a sandbox, for the reservation; {without} has no fresh SandboxReport"},
		{id: "without-report-timeout", pod: anyPod, sandbox: is(NoFreshReport), when: c.timedOut, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "{without} has been not Ready for longer than --unreachable-node-timeout"},
		{id: "without-report-unreachable", pod: anyPod, sandbox: is(NoFreshReport), when: c.unreachable, verdict: Held, reason: NodeUnreachable,
			say: "{without} is not Ready and has no fresh SandboxReport: the sandbox may run on behind a partition"},
		{id: "without-report", pod: anyPod, sandbox: is(NoFreshReport), verdict: Held, reason: NoFreshReportReason,
			say: "{without} could run the sandbox, and no fresh SandboxReport reports whether it does"},
		{id: "live-replaced", pod: podstate.Live, own: c.notIts, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodReplaced, by: sandboxEnded,
			say: "the sandbox belonged to an earlier pod of this name ({uid}) and has ended ({sandbox})"},
		{id: "live-ended", pod: podstate.Live, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxReplaced, by: sandboxEnded,
			say: "the sandbox has ended ({sandbox}), and the running pod does not carry the address"},
		{id: "live-no-network-status", pod: podstate.Live, sandbox: is(Absent, NoSource), when: c.noStatus, verdict: Held, reason: NetworkStatusMissing,
			say: "the running pod has no readable network-status, so nothing says which addresses it carries"},
		{id: "live-not-on-pod", pod: podstate.Live, sandbox: is(Absent), verdict: Stale, reason: AddressNotOnPod, by: sandboxAbsent,
			say: "the running pod's network-status does not have the address"},
		{id: "live-not-on-pod-trusted", pod: podstate.Live, sandbox: is(NoSource), when: c.trusted, verdict: Stale, reason: AddressNotOnPod, by: trustedStatus,
			say: "the running pod's network-status does not have the address, and --trust-network-status is given"},
		{id: "live-not-on-pod-untrusted", pod: podstate.Live, sandbox: is(NoSource), verdict: Held, reason: AddressNotOnPod,
			say: "the running pod's network-status does not have the address; whoever may edit the pod can remove it there, and no node agent reports what the pod has"},
		{id: "terminating-ended", pod: podstate.Terminating, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: SandboxStopped, by: sandboxEnded,
			say: "the pod is being deleted and its sandbox has ended ({sandbox})"},
		{id: "terminating-absent", pod: podstate.Terminating, sandbox: is(Absent), verdict: Stale, reason: SandboxStopped, by: sandboxAbsent,
			say: "the pod is being deleted, and no runtime has the sandbox"},
		{id: "terminating-timeout", pod: podstate.Terminating, sandbox: is(NoSource), when: c.nodeTimedOut, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "the pod is being deleted, and its node {nodes} has been not Ready for longer than --unreachable-node-timeout"},
		{id: "terminating-unreachable", pod: podstate.Terminating, sandbox: is(NoSource), when: c.nodeNotReady, verdict: Held, reason: NodeUnreachable,
			say: "the pod is being deleted, and its node {nodes} is not Ready: its containers may run on"},
		{id: "terminating-stuck", pod: podstate.Terminating, sandbox: is(NoSource), when: c.overdue, verdict: Held, reason: StuckTerminating,
			say: "the pod should have been gone since {deleted}; without a node agent nothing reports whether it still runs"},
		{id: "terminating", pod: podstate.Terminating, sandbox: is(NoSource), verdict: Held, reason: Terminating,
			say: "the pod is being deleted"},
		{id: "finished-ended", pod: podstate.Finished, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodFinished, by: sandboxEnded,
			say: "the pod is {phase} and its sandbox has ended ({sandbox})"},
		{id: "finished-absent", pod: podstate.Finished, sandbox: is(Absent), verdict: Stale, reason: PodFinished, by: sandboxAbsent,
			say: "the pod is {phase}, and no runtime has the sandbox"},
		{id: "finished-stopped", pod: podstate.Finished, sandbox: is(NoSource), when: c.stopped, verdict: Stale, reason: PodFinished, by: stoppedByKubelet,
			say: "the pod is {phase} and its kubelet reported every container stopped"},
		{id: "finished-running", pod: podstate.Finished, sandbox: is(NoSource), verdict: Held, reason: TerminalButRunning,
			say: "the pod is {phase}, but its kubelet did not report every container stopped"},
		{id: "gone-ended", pod: podstate.None, sandbox: is(Stopped, Gone), verdict: Stale, proven: true, reason: PodGone, by: sandboxEnded,
			say: "the pod is gone and its sandbox has ended ({sandbox})"},
		{id: "gone-absent", pod: podstate.None, sandbox: is(Absent), verdict: Stale, reason: PodGone, by: sandboxAbsent,
			say: "the pod is gone, and no runtime has the sandbox"},
		{id: "gone-timeout", pod: podstate.None, sandbox: is(NoSource), when: c.nodeTimedOut, verdict: Stale, reason: NodeUnreachable, by: nodeTimedOut,
			say: "the pod is gone, and the nodes that are not Ready have been so for longer than --unreachable-node-timeout"},
		{id: "gone-unreachable", pod: podstate.None, sandbox: is(NoSource), when: c.nodeNotReady, verdict: Held, reason: NodeUnreachable,
			say: "the pod is gone, but a node that could still run it is not Ready"},
		{id: "gone", pod: podstate.None, sandbox: is(NoSource), verdict: Stale, reason: PodGone, by: podGone,
			say: "the pod is gone"},
		// A READY sandbox to which no report gives a UID: neither the pod's nor
		// proven not to be. It is in use all the same.
		{id: "ready-unknown-pod", pod: anyPod, sandbox: is(Ready), verdict: Held, reason: PhantomPod,
			say: "the sandbox runs on {nodes}, and the report does not say for which pod"},
		// A gap in the table must never free anything.
		{id: "no-rule", pod: anyPod, verdict: Held, reason: NoRule, say: "no rule covers this; please report it"},
	}
}

// overruled are the rows by which a verdict of Stale does not stand; the first that
// matches decides.
func overruled() []rule {
	c := conditions()
	return []rule{
		{id: "claimed-unread", pod: anyPod, when: c.claimUnread, verdict: Held, reason: ClaimedByOther,
			say: "{claimant} may carry the address: no CNI cache entry there tells its addresses"},
		{id: "claimed", pod: anyPod, when: c.claimed, verdict: Held, reason: ClaimedByOther,
			say: "{claimant} carries the address in the same network"},
	}
}

// doubts are the conditions under which a verdict whose row is proven is not: it must
// then be confirmed as the others.
func doubts() []*condition {
	c := conditions()
	return []*condition{c.notSeenWherever, c.agentNotHeard}
}
