package statuscmd

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// sayGates follows the checks of what keeps releases back. None of those has a line where its gate is open.
func sayGates(f *facts, l *lines) {
	isGate := func(line document.StatusLine) bool {
		return slices.Contains([]string{"paused", "paused-pools", "restore", "breaker"}, line.ID)
	}
	if !slices.ContainsFunc(l.all, isGate) {
		l.ok("Nothing stands against releases: no pause, no restore of etcd, no breaker.")
	}
}

func sayPaused(f *facts, l *lines) {
	if known(l, f.paused, "Whether namespace "+f.namespace+" pauses everything is") && f.paused.value {
		l.warn(fmt.Sprintf("kubectl annotate namespace %s %s-", f.namespace, ippool.PausedAnnotation),
			"Everything is paused by the annotation on namespace %s: nothing is freed.", f.namespace)
	}
}

func sayPausedPools(f *facts, l *lines) {
	var names []string
	next := ""
	for _, p := range f.judged.value.Observation.Pools {
		if p.Paused {
			names = append(names, p.Ref())
			next = fmt.Sprintf("kubectl annotate ippools.whereabouts.cni.cncf.io -n %s %s %s-", p.Namespace, p.Name, ippool.PausedAnnotation)
		}
	}
	if len(names) > 0 {
		l.warn(next, "%s paused by annotation: %s.", plural(len(names), "pool"), few(shown, names))
	}
}

func sayRestore(f *facts, l *lines) {
	r := f.judged.value.Restore
	if !r.Complete() {
		l.fail(agentPods(r.Awaiting), "etcd was restored at %s (%s): nothing is freed until these nodes have written their "+
			"SandboxReport since: %s. docs/restore.md has what to do for nodes that are gone.",
			clock(r.Restored), r.Why, few(shown, r.Awaiting))
		return
	}
	for _, g := range f.judged.value.plan.Standing {
		if g.Why == reconciler.EtcdRestored {
			l.fail(kubectl(f.namespace, "get lease %s -o yaml", kube.RestoreLease), "Nothing is freed: %s.", g.Detail)
		}
	}
}

func sayBreaker(f *facts, l *lines) {
	if !known(l, f.leader, fmt.Sprintf("What the breaker counts, in Lease %s/%s, is", f.namespace, kube.OwnLease)) ||
		f.leader.value == nil || f.judged.err != nil {
		return
	}
	const next = "ip-reconcile run --dry-run"
	s, err := reconciler.ReadBreaker(f.leader.value.Annotations[kube.ReleasedAnnotation], f.now, f.judged.value.Total)
	p, _ := f.lastPass()
	switch {
	case err != nil:
		l.fail(kubectl(f.namespace, "annotate lease %s %s-", kube.OwnLease, kube.ReleasedAnnotation),
			"Nothing unconfirmed is freed: %v.", err)
	case s.Refusal != "":
		l.fail(next, "The breaker has tripped: %d unconfirmed releases within an hour, of %d allocations. "+
			"No more are made before %s, but by run --allow-mass-release.", s.Made, s.Of, clock(s.Until))
	case p != nil && p.Refused[reconciler.Breaker] > 0:
		l.fail(next, "The breaker tripped in the last pass: %d unconfirmed releases were not made, which are more than half "+
			"of all allocations. If they are right: run --allow-mass-release.", p.Refused[reconciler.Breaker])
	}
}
