package statuscmd

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// sayCompeting says what else frees addresses.
func sayCompeting(f *facts, l *lines) {
	before, all := len(l.all), f.workloads.value
	for _, w := range all.workloads {
		if program := w.Competing(); program != "" {
			l.fail(w.stopCompeting(), "%s runs whereabouts' own %s, which frees addresses that are held here.", w.String(), program)
		}
	}
	var names []string
	var extra *workload
	for _, w := range all.reconcilers() {
		if w.Runs() {
			names = append(names, w.String())
			if extra == nil || extra.Namespace == f.namespace {
				extra = w
			}
		}
	}
	if len(names) > 1 {
		l.fail(extra.do("delete", ""), "%d reconcilers of ip-reconcile are deployed, and one is meant to be: %s.", len(names), few(shown, names))
	}
	switch {
	case len(l.all) > before:
	case all.onlyIn != "":
		l.unknown("Nothing else frees addresses in namespace %s; no other may be listed.", all.onlyIn)
	default:
		l.ok("Nothing else frees addresses: no reconciler of whereabouts' own runs.")
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

// holders are the first of whereabouts' Leases that is held for long, nil for none, and the names of those that the
// fence holds. The holder's own clock gives both times of the hold's age, and the API server's whether it is alive.
func (f *facts) holders() (long *coordinationv1.Lease, fenced []string) {
	for i := range f.addLeases.value {
		lease := &f.addLeases.value[i]
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		switch {
		case holder == "" || f.now.Sub(renewTime(lease)) > renewedWithin:
		case holder == kube.FenceHolder:
			fenced = append(fenced, lease.Namespace+"/"+lease.Name)
		case long == nil && holdAge(lease) > heldFor:
			long = lease
		}
	}
	return long, fenced
}

// holdAge is for how long its holder has had a Lease.
func holdAge(l *coordinationv1.Lease) time.Duration {
	if l.Spec.AcquireTime == nil || l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time)
}

func sayAddLeases(f *facts, l *lines) {
	long, fenced := f.holders()
	switch {
	case !known(l, f.addLeases, "Who holds whereabouts' Leases is"):
	case long != nil:
		l.fail(kubectl(long.Namespace, "get lease %s -o yaml", long.Name),
			"%s holds whereabouts' Lease %s/%s for %s: pods that start or end wait for it.",
			*long.Spec.HolderIdentity, long.Namespace, long.Name, ago(holdAge(long)))
	case len(fenced) == 0:
		l.ok("Nobody keeps whereabouts' Lease from pods that start or end.")
	}
}

func sayFence(f *facts, l *lines) {
	if long, fenced := f.holders(); f.addLeases.err == nil && long == nil && len(fenced) > 0 {
		l.warn(kubectl(f.namespace, "get events --field-selector reason=EtcdRestored"),
			"The fence stands: pods that start or end wait, for %s at most, until it is known whether etcd was restored "+
				"and the pools say what runs (%s).", ago(kube.LongestFence), few(shown, fenced))
	}
}
