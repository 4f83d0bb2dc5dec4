package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// proof is what a row of the table that says Stale rests on. No other proof makes anything Stale.
type proof uint8

const (
	noProof          proof = iota
	sandboxEnded           // a report says that this sandbox has ended, or its node is proven dead
	pendingWithout         // a report says that this sandbox has ended, and the Pending pod has its network without it
	sandboxAbsent          // no report has it, and every node that could run it has a fresh report
	nodeObjectGone         // the Node object of every node that could run it is gone
	stoppedByKubelet       // the kubelet of the pod's own node reported every container stopped
	nodeTimedOut           // --unreachable-node-timeout has passed
	reservedAlone          // a reservation that has had no allocation and no known carrier for a day
	podGone                // without agents: the pod does not exist, and all nodes are known
	trustedStatus          // without agents: the operator trusts the pod's network-status, which lacks the address
	assertedByPerson       // a person overrides what is held for lack of evidence, see Overrides
)

func (p proof) holds(e *Evidence) bool {
	noSource, noFreshReport := e.Sandbox == NoSource, e.Sandbox == NoFreshReport
	switch p {
	case sandboxEnded:
		return e.Sandbox == Stopped || e.Sandbox == Gone || e.Sandbox == NodeDead
	case pendingWithout:
		return (e.Sandbox == Stopped || e.Sandbox == Gone) && e.hasNetworkWithout()
	case sandboxAbsent:
		return e.Sandbox == Absent
	case nodeObjectGone:
		return e.Sandbox == NodeMissing
	case stoppedByKubelet:
		return e.Phase == podstate.Finished && e.Pod != nil && e.Pod.StoppedByKubelet &&
			(noSource || noFreshReport && e.stoppedOnItsOwnNode())
	case nodeTimedOut:
		return e.UnreachableTimedOut && (noSource || noFreshReport) && !e.NodesUnknown
	case reservedAlone:
		return e.LongAlone && noFreshReport && e.Phase == podstate.None && !e.NodesUnknown
	case podGone:
		return noSource && e.Phase == podstate.None && !e.NodesUnknown
	case trustedStatus:
		return noSource && e.StatusTrusted && e.Phase == podstate.Live && e.Pod != nil &&
			e.Pod.Status == podstate.StatusReadable
	case assertedByPerson:
		return e.Override != "" &&
			(noSource || noFreshReport || e.Sandbox == Absent && e.Override == NetworkStatusMissing)
	}
	return false
}

// stoppedOnItsOwnNode reports whether the stopped containers of the pod prove the end of the sandbox. kubelet reports
// on this pod and this node only: the sandbox of an earlier pod of the name may still run on another node.
func (e *Evidence) stoppedOnItsOwnNode() bool {
	return e.Pod.StoppedByKubelet && !e.HasContradictingReport && !e.NodesUnknown && e.Ownership != NotItsPod &&
		slices.Equal(e.WithoutReport, []string{e.Pod.Node})
}

// forbidsStale reports whether the evidence rules out Stale, whatever the proof: a source could not be read, another
// carries the address, a machine keeps it, the sandbox may run, or an ADD may be in progress.
func (e *Evidence) forbidsStale() bool {
	mayRun := e.Sandbox == Ready || e.Sandbox == NotReady || e.Sandbox == Attached
	ownAndPending := e.Phase == podstate.Pending && e.Sandbox != Absent && e.Ownership != NotItsPod &&
		!e.hasNetworkWithout()
	return e.Problem != "" || e.Rival != "" || e.IPAMClaim.mayExist() || mayRun || ownAndPending || e.Recent ||
		e.Deleting || e.OnPod && e.Phase == podstate.Live
}

// hasNetworkWithout reports whether the Pending pod has its network without the item's address.
func (e *Evidence) hasNetworkWithout() bool {
	return e.Phase == podstate.Pending && !e.OnPod && (e.NetworkComplete || e.Superseded)
}

// stale gives the verdict Stale, and nothing else does. Without the row's proof, or against the evidence, the table has
// a mistake, and the item is held. A row that overrules gives its reason, and makes the verdict unconfirmed.
func (r *rule) stale(e *Evidence, overrule *rule) Decision {
	if !r.by.holds(e) || e.forbidsStale() || r.proven && r.by != sandboxEnded {
		noRule := &rules[slices.IndexFunc(rules, func(r rule) bool { return r.reason == NoRule })]
		return Decision{Verdict: Held, Reason: NoRule, row: noRule}
	}
	doubted := slices.ContainsFunc(doubts(), func(c condition) bool { return c.holds(e) })
	d := Decision{Verdict: Stale, Reason: r.reason, Proven: r.proven && !doubted, row: r}
	if overrule != nil {
		d.Reason, d.Proven, d.overruledBy = overrule.reason, false, overrule
	}
	return d
}
