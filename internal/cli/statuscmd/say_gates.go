package statuscmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func zeroTime() metav1.MicroTime { return metav1.MicroTime{} }

// sayGates says what keeps releases back.
func (f *facts) sayGates(l *lines) {
	before := len(*l)
	f.sayPaused(l)
	f.sayRestore(l)
	f.sayBreaker(l)
	if f.judged.known() && !slices.ContainsFunc((*l)[before:], func(x document.StatusLine) bool { return x.Level != document.LevelOK }) {
		*l = (*l)[:before]
		l.ok("gates", "Nothing stands against releases: no pause, no restore of etcd, no breaker.")
	}
}

func (f *facts) sayPaused(l *lines) {
	const id = "paused"
	switch {
	case !f.paused.known():
		l.unknown(id, "Whether everything is paused is not known: namespace %s: %s.", f.namespace, f.paused.why())
	case f.paused.value:
		l.warn(id, fmt.Sprintf("kubectl annotate namespace %s %s-", f.namespace, ippool.PausedAnnotation), "Everything is paused by the annotation on namespace %s: nothing is freed.", f.namespace)
	}
	if !f.judged.known() {
		return // sayStale says so
	}
	var names []string
	var first *ippool.Pool
	for _, p := range f.judged.value.Observation.Pools {
		if p.Paused {
			names = append(names, p.Ref())
			if first == nil {
				first = p
			}
		}
	}
	if first != nil {
		l.warn("paused-pools", fmt.Sprintf("kubectl annotate ippools.whereabouts.cni.cncf.io -n %s %s %s-", first.Namespace, first.Name, ippool.PausedAnnotation), "%s paused: %s.", capital(plural(len(names), "pool")+" "+isAre(len(names))), few(names))
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (f *facts) sayRestore(l *lines) {
	const id = "restore"
	if !f.judged.known() {
		return // sayStale says so
	}
	r := f.judged.value.Restore
	if r.Complete() {
		for _, g := range f.judged.value.plan.Standing {
			if g.Why == reconciler.EtcdRestored {
				l.fail(id, fmt.Sprintf("kubectl -n %s get lease %s -o yaml", f.namespace, kube.RestoreLease), "Nothing is freed: %s.", g.Detail)
			}
		}
		return
	}
	l.fail(id, agentPods(r.Awaiting), "etcd was restored at %s (%s): nothing is freed until these nodes have written their SandboxReport since: %s. docs/restore.md has what to do for nodes that are gone.",
		clock(r.Restored), r.Why, few(r.Awaiting))
}

func (f *facts) sayBreaker(l *lines) {
	const id = "breaker"
	if !f.leader.known() {
		l.unknown(id, "What the breaker counts is not known: Lease %s/%s: %s.", f.namespace, kube.OwnLease, f.leader.why())
		return
	}
	if f.leader.value == nil || !f.judged.known() {
		return
	}
	s, err := reconciler.ReadBreaker(f.leader.value.Annotations[kube.ReleasedAnnotation], f.now, f.judged.value.Total)
	switch {
	case err != nil:
		l.fail(id, fmt.Sprintf("kubectl -n %s annotate lease %s %s-", f.namespace, kube.OwnLease, kube.ReleasedAnnotation), "Nothing unconfirmed is freed: %v.", err)
		return
	case s.Refusal != "":
		l.fail(id, "ip-reconcile run --dry-run", "The breaker has tripped: %d unconfirmed releases within an hour, of %d allocations. No more are made before %s, but by run --allow-mass-release.", s.Made, s.Of, clock(s.Until))
		return
	}
	if p := f.lastPass(); p != nil && p.Refused[reconciler.Breaker] > 0 {
		l.fail(id, "ip-reconcile run --dry-run", "The breaker tripped in the last pass: %d unconfirmed releases were not made, which are more than half of all allocations. If they are right: run --allow-mass-release.", p.Refused[reconciler.Breaker])
	}
}

// lastPass is what is recorded; nil where nothing is, or nothing that can be read.
func (f *facts) lastPass() *reconciler.PassRecord {
	if !f.passes.known() || f.passes.value == nil {
		return nil
	}
	p, _ := reconciler.ReadPass(f.passes.value.Annotations[kube.PassAnnotation])
	return p
}

// sayStale says what is stale, and why it is there still.
func (f *facts) sayStale(l *lines) {
	const id = "stale"
	switch {
	case !f.judged.known() && whereaboutsMissing(f):
		return // sayDefinitions says it
	case !f.judged.known():
		l.fail(id, "ip-reconcile check", "Addresses cannot be judged: %s.", f.judged.why())
		return
	}
	j, plan := f.judged.value, f.judged.value.plan
	total := len(plan.Release) + len(plan.Refused)
	if total == 0 {
		l.ok(id, "%s in %s: none is stale.", capital(plural(j.Total, "allocation")), plural(len(j.Observation.Pools), "pool"))
		return
	}
	count := map[reconciler.Refusal]int{}
	for _, x := range plan.Refused {
		count[x.Why]++
	}
	var parts []string
	if n := len(plan.Release); n > 0 {
		parts = append(parts, fmt.Sprintf("%d may be freed at once", n))
	}
	for _, why := range reconciler.Refusals() {
		if n := count[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, waits(why, n)))
		}
	}
	l.ok(id, "%s in %s, %d of them stale: %s.", capital(plural(j.Total, "allocation")), plural(len(j.Observation.Pools), "pool"), total, strings.Join(parts, ", "))
}

// waits says what n stale items do.
func waits(why reconciler.Refusal, n int) string {
	verb := "waits"
	if n != 1 {
		verb = "wait"
	}
	switch why {
	case reconciler.AwaitingConfirmation:
		return verb + " for confirmation"
	case reconciler.Paused:
		return isAre(n) + " paused"
	case reconciler.EtcdRestored:
		return verb + " since etcd was restored"
	case reconciler.Breaker:
		return isAre(n) + " kept by the breaker"
	}
	return isAre(n) + " not freed (" + string(why) + ")"
}

func whereaboutsMissing(f *facts) bool {
	a := f.definitions[ippool.PoolResource.GroupResource().String()]
	return a.known() && a.value == nil
}

// sayUnreadable says what cannot be read, and is judged by nothing.
func (f *facts) sayUnreadable(l *lines) {
	if !f.judged.known() {
		return
	}
	j := f.judged.value
	var bad []string
	bad = append(bad, j.Observation.Unreadable...)
	for _, x := range j.Findings {
		if x.Kind == judge.MalformedFinding {
			bad = append(bad, x.Message)
		}
	}
	for _, n := range j.Observation.NADs {
		if n.Problem != "" {
			bad = append(bad, fmt.Sprintf("NetworkAttachmentDefinition %s/%s: %s", n.Namespace, n.Name, n.Problem))
		}
	}
	slices.Sort(bad)
	if len(bad) > 0 {
		more := ""
		if n := len(bad) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		l.warn("unreadable", "ip-reconcile check", "What cannot be read is not judged: %s%s.", strings.TrimSuffix(bad[0], "."), more)
	}
}

const (
	// heldFor is for how long nobody holds whereabouts' Lease: an ADD or DEL takes seconds,
	// a release of ours 5 s at most.
	heldFor = time.Minute
	// renewedWithin is within what time who holds it has renewed it; else nobody does, and
	// the next ADD takes it.
	renewedWithin = 10 * time.Second
)

// sayWhereaboutsLease says who keeps ADDs and DELs waiting. The holder's own clock gives
// both times of the hold's age, and the API server's whether it is alive.
func (f *facts) sayWhereaboutsLease(l *lines) {
	const id = "whereabouts-lease"
	if !f.addLeases.known() {
		l.unknown(id, "Who holds whereabouts' Leases is not known: %s.", f.addLeases.why())
		return
	}
	var fenced []string
	for i := range f.addLeases.value {
		lease := &f.addLeases.value[i]
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder == "" || f.now.Sub(renewed(lease)) > renewedWithin {
			continue
		}
		name := lease.Namespace + "/" + lease.Name
		if holder == kube.FenceHolder {
			fenced = append(fenced, name)
			continue
		}
		if age := heldSince(lease); age > heldFor {
			l.fail(id, fmt.Sprintf("kubectl -n %s get lease %s -o yaml", lease.Namespace, lease.Name), "%s holds whereabouts' Lease %s for %s: pods that start or end wait for it.", holder, name, ago(age))
			return
		}
	}
	if len(fenced) > 0 {
		l.warn("fence", fmt.Sprintf("kubectl -n %s get events --field-selector reason=EtcdRestored", f.namespace),
			"The fence stands: pods that start or end wait, for %s at most, until it is known whether etcd was restored and the pools say what runs (%s).", ago(kube.LongestFence), few(fenced))
		return
	}
	l.ok(id, "Nobody keeps whereabouts' Lease from pods that start or end.")
}

func heldSince(l *coordinationv1.Lease) time.Duration {
	if l.Spec.AcquireTime == nil || l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time)
}
