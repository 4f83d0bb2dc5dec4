package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// proof is what a row of the table that says Stale rests on. There are no others.
type proof uint8

const (
	noProof           proof = iota
	sandboxEnded            // a report says that this very sandbox has ended, or its node is proven dead
	sandboxAbsent           // no report has it, and every node that could run it has a fresh one
	nodeObjectGone          // the Node object of every node that could run it is gone
	interfaceDetached       // the sandbox runs without the interface
	stoppedByKubelet        // the kubelet of the pod's own node reported every container stopped
	nodeTimedOut            // the operator gave its nodes up by --unreachable-node-timeout
	reservedAlone           // a reservation that has had no entry and no carrier for a day
	podGone                 // without agents: there is no pod by that name
	trustedStatus           // without agents: the operator trusts the pod's network-status, which lacks the address
)

// holds reports whether the evidence has the proof.
func (p proof) holds(e *Evidence) bool {
	noSource, noFreshReport := e.Sandbox == NoSource, e.Sandbox == NoFreshReport
	switch p {
	case sandboxEnded:
		return e.Sandbox == Stopped || e.Sandbox == Gone || e.Sandbox == NodeDead
	case sandboxAbsent:
		return e.Sandbox == Absent
	case nodeObjectGone:
		return e.Sandbox == NodeMissing
	case interfaceDetached:
		return e.Sandbox == Ready && e.Detached && e.Ownership == ItsPod && e.Phase == podstate.Live
	case stoppedByKubelet:
		return e.Phase == podstate.Finished && e.Pod != nil && e.Pod.StoppedByKubelet && (noSource || noFreshReport && e.stoppedOnItsOwnNode())
	case nodeTimedOut:
		return e.UnreachableTimedOut && (noSource || noFreshReport)
	case reservedAlone:
		return e.LongAlone && noFreshReport && e.Phase == podstate.None
	case podGone:
		return noSource && e.Phase == podstate.None
	case trustedStatus:
		return noSource && e.StatusTrusted && e.Phase == podstate.Live && e.Pod != nil && e.Pod.Status == podstate.StatusReadable
	}
	return false
}

// stoppedOnItsOwnNode reports whether the kubelet's report of the pod is enough: it is taken for the pod that it
// is about only, and for its own node. The sandbox of an earlier pod of the name may run on, on a node without a fresh
// report.
func (e *Evidence) stoppedOnItsOwnNode() bool {
	return e.Pod.StoppedByKubelet && !e.HasContradictingReport && e.Ownership != NotItsPod && slices.Equal(e.WithoutReport, []string{e.Pod.Node})
}

// forbidsStale reports whether the evidence does not let anything be Stale, whatever the proof:
// a source could not be read, somebody carries the address, or an ADD may be under way.
func (e *Evidence) forbidsStale() bool {
	mayRun := e.Sandbox == Ready && !e.Detached || e.Sandbox == NotReady || e.Sandbox == Attached
	ownAndPending := e.Phase == podstate.Pending && e.Sandbox != Absent && e.Ownership != NotItsPod
	return e.Problem != "" || e.Claimant != "" || mayRun || ownAndPending || e.Recent || e.Deleting ||
		e.OnPod && e.Phase == podstate.Live
}

// stale is the verdict Stale by a row of the table, and the only place that gives it. What forbids it is a mistake
// in the table, by which the item is held.
func (r *rule) stale(e *Evidence) Decision {
	if !r.by.holds(e) || e.forbidsStale() || r.proven && r.by != sandboxEnded {
		noRule := &rules[slices.IndexFunc(rules, func(r rule) bool { return r.reason == NoRule })]
		return Decision{Verdict: Held, Reason: NoRule, row: noRule}
	}
	doubted := slices.ContainsFunc(doubts(), func(c condition) bool { return c.holds(e) })
	return Decision{Verdict: Stale, Reason: r.reason, Proven: r.proven && !doubted, row: r}
}
