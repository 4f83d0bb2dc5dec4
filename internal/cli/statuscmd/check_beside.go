package statuscmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// sayCompeting says what else frees addresses.
func sayCompeting(f *facts, l *lines) {
	if !f.workloads.known() {
		return // sayReconciler says so
	}
	before := len(l.all)
	for _, w := range f.all(func(w *workload) bool { return w.competing() != "" }) {
		l.fail(w.stopCompeting(), "%s runs whereabouts' own %s, which frees addresses that are held here.",
			w.ref(), w.competing())
	}
	own := f.all(func(w *workload) bool {
		return w.isReconciler() && !w.suspended && (w.wanted > 0 || w.kind == "CronJob")
	})
	if len(own) > 1 {
		extra := own[len(own)-1]
		var names []string
		for _, w := range own {
			names = append(names, w.ref())
			if w.namespace != f.namespace {
				extra = w
			}
		}
		l.fail(extra.delete(), "%d reconcilers of ip-reconcile are deployed, and one is meant to be: %s.",
			len(own), few(shown, names))
	}
	switch {
	case len(l.all) > before:
	case f.onlyIn != "":
		l.unknown("Nothing else frees addresses in namespace %s; no other may be listed.", f.onlyIn)
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

func sayAddLeases(f *facts, l *lines) {
	long, fenced := f.holders()
	switch {
	case !f.addLeases.known():
		l.unknown("Who holds whereabouts' Leases is not known: %s.", f.addLeases.why())
	case long != nil:
		l.fail(kubectl(long.Namespace, "get lease %s -o yaml", long.Name),
			"%s holds whereabouts' Lease %s/%s for %s: pods that start or end wait for it.",
			*long.Spec.HolderIdentity, long.Namespace, long.Name, ago(holdAge(long)))
	case len(fenced) == 0:
		l.ok("Nobody keeps whereabouts' Lease from pods that start or end.")
	}
}

func sayFence(f *facts, l *lines) {
	if long, fenced := f.holders(); f.addLeases.known() && long == nil && len(fenced) > 0 {
		l.warn(kubectl(f.namespace, "get events --field-selector reason=EtcdRestored"),
			"The fence stands: pods that start or end wait, for %s at most, until it is known whether etcd was restored "+
				"and the pools say what runs (%s).", ago(kube.LongestFence), few(shown, fenced))
	}
}

func sayAccountRights(f *facts, l *lines) {
	own := f.own()
	if own == nil {
		sayRights(l, f.accountRights, "the reconciler's ServiceAccount", "", l.fail)
		return
	}
	name := own.namespace + "/" + own.account()
	next := "kubectl auth can-i --list --as=system:serviceaccount:" + strings.ReplaceAll(name, "/", ":")
	if name == "kube-system/"+product { // the names of deploy
		next = "kubectl apply -f deploy/base/rbac.yaml -f deploy/deployment/rbac.yaml"
	}
	sayRights(l, f.accountRights, "ServiceAccount "+name, next, l.fail)
}

func sayOwnRights(f *facts, l *lines) {
	sayRights(l, f.ownRights, "this user", "kubectl auth can-i --list", l.warn)
}

// sayRights says by what does not work without them which rights somebody lacks. Where nothing is judged or released
// without one of them it says so by lacking.
func sayRights(l *lines, rights answer[[]right], who, next string, lacking func(next, format string, args ...any)) {
	if !rights.asked {
		return
	}
	if !rights.known() {
		l.unknown("The rights of %s are not known: %s.", who, rights.why())
		return
	}
	if len(rights.value) == 0 {
		l.ok("%s has all rights that run needs.", capital(who))
		return
	}
	var parts []string
	say := l.warn
	for i, r := range rights.value {
		if r.fatal {
			say = lacking
		}
		if slices.ContainsFunc(rights.value[:i], func(before right) bool { return before.without == r.without }) {
			continue
		}
		var same []string
		for _, other := range rights.value[i:] {
			if other.without == r.without {
				same = append(same, other.String())
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", strings.Join(same, "; "), r.without))
	}
	say(next, "%s may not %s.", capital(who), strings.Join(parts, "; "))
}
