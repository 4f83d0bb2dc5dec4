package statuscmd

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	// leaderGone is after how long without a renewal nobody leads: its Lease is of 15 s
	// (internal/cli/servecmd), and who waits tries every 2 s.
	leaderGone = 40 * time.Second
	// late is how long after its time a pass is overdue.
	late = 5 * time.Minute
	// lateJob is late for a CronJob: its pass waits for confirmations, and must be scheduled, pulled and started.
	lateJob = 20 * time.Minute
	// longestJob is for how long a Job may run (activeDeadlineSeconds in deploy/cronjob).
	longestJob = time.Hour
)

func sayReconciler(f *facts, l *lines) {
	own := f.own()
	switch {
	case !f.workloads.known():
		l.unknown("Deployments, CronJobs and DaemonSets are not known: %s.", f.workloads.why())
	case own == nil && len(f.all((*workload).isReconciler)) > 0:
		l.warn("kubectl get deployments,cronjobs -A -l "+nameLabel+"="+product,
			"The reconciler is not in namespace %s: give its own with --reconciler-namespace.", f.namespace)
	case own == nil && f.onlyIn != "":
		l.unknown("The reconciler is not in namespace %s; no other may be listed: give its own with --reconciler-namespace.",
			f.onlyIn)
	case own == nil:
		l.warn("helm install ip-reconcile deploy/helm/ip-reconcile -n "+f.namespace+
			" --set image.repository=example.com/ip-reconcile", "No Deployment or CronJob of ip-reconcile was found: nothing is freed but by hand.")
	case own.kind == "CronJob" && own.suspended:
		l.fail(own.suspend(false), "%s is suspended: nothing is freed.", own.ref())
	case own.kind == "CronJob":
		l.ok("%s runs at %q.", own.ref(), own.schedule)
	case own.wanted == 0:
		l.fail(own.kubectl("scale %s --replicas=2", own.object()), "%s is scaled to 0 replicas: nothing is freed.", own.ref())
	case own.ready == 0:
		l.fail(own.pods(), "%s has none of its %s ready: nothing is freed.", own.ref(), plural(int(own.wanted), "replica"))
	case own.ready < own.wanted:
		l.warn(own.pods(), "%s has %d of %d replicas ready.", own.ref(), own.ready, own.wanted)
	default:
		l.ok("%s has %d of %d replicas ready.", own.ref(), own.ready, own.wanted)
	}
}

func sayLeader(f *facts, l *lines) {
	own, lease := f.own(), f.leader.value
	if own.kind != "Deployment" || own.argument("--leader-elect") == "false" {
		return
	}
	name := f.namespace + "/" + kube.OwnLease
	switch {
	case !f.leader.known():
		l.unknown("The leader is not known: Lease %s: %s.", name, f.leader.why())
	case lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		l.fail(own.logs(), "No replica leads (Lease %s has no holder): nothing is freed.", name)
	case f.now.Sub(renewTime(lease)) > leaderGone:
		l.fail(own.logs(), "No replica leads: %s has not renewed Lease %s for %s, and nobody took over. Nothing is freed.",
			*lease.Spec.HolderIdentity, name, ago(f.now.Sub(renewTime(lease))))
	default:
		l.ok("%s leads since %s.", *lease.Spec.HolderIdentity, clock(acquireTime(lease)))
	}
}

func saySchedule(f *facts, l *lines) {
	s := f.schedule.value
	if !f.schedule.known() {
		l.unknown("The schedule is not known: %s.", f.schedule.why())
		return
	}
	at, err := s.next(f.now)
	if err != nil {
		l.fail(s.edit, "The schedule in %s cannot be used: %v. The last one that could be used, or the default, is in force.",
			s.source, err)
		return
	}
	l.ok("Passes are due at %q (%s), next at %s.", s.expression, s.source, clock(at))
}

// due is when a pass is due after the last one, zero where that is not known, and whether it is overdue.
func (f *facts) due(last time.Time) (at time.Time, overdue bool) {
	if !f.schedule.known() {
		return time.Time{}, false
	}
	at, err := f.schedule.value.next(last)
	if err != nil {
		return time.Time{}, false
	}
	own, allowed := f.own(), late
	if own.kind == "CronJob" {
		allowed = lateJob
		if own.active > 0 {
			allowed += longestJob
		}
	}
	return at, f.now.Sub(at) > allowed
}

func sayLastPass(f *facts, l *lines) {
	own := f.own()
	if !f.passes.known() {
		l.unknown("The last pass is not known: Lease %s/%s: %s.", f.namespace, kube.PassLease, f.passes.why())
		return
	}
	p, err := f.lastPass()
	if err != nil {
		l.warn(kubectl(f.namespace, "delete lease %s", kube.PassLease), "%s.", capital(err.Error()))
		return
	}
	if p == nil {
		sayNoPass(f, l, own)
		return
	}
	at, overdue := f.due(p.Succeeded)
	switch {
	case p.Result == reconciler.PassFailed:
		since := "none has succeeded before"
		if !p.Succeeded.IsZero() {
			since = "the last that succeeded was at " + clock(p.Succeeded)
		}
		l.fail(own.logs(), "The pass at %s failed (%s); %s.", clock(p.At), p.Message, since)
	case overdue:
		l.fail(own.logs(), "The last pass was %s ago, at %s, and one is overdue since %s.",
			ago(f.now.Sub(p.Succeeded)), clock(p.Succeeded), clock(at))
	default:
		next := ""
		if !at.IsZero() {
			next = "; the next is due at " + clock(at)
		}
		l.ok("The last pass succeeded %s ago (it took %s and freed %d)%s.",
			ago(f.now.Sub(p.Succeeded)), p.Took, p.Released, next)
	}
}

// lastPass is the record of the last pass; nil where there is none.
func (f *facts) lastPass() (*reconciler.PassRecord, error) {
	if !f.passes.known() || f.passes.value == nil {
		return nil, nil
	}
	return reconciler.ReadPass(f.passes.value.Annotations[kube.PassAnnotation])
}

// sayNoPass is for a reconciler that has recorded no pass.
func sayNoPass(f *facts, l *lines, own *workload) {
	leads := f.leader.value
	switch {
	case own.kind == "CronJob" && own.lastSchedule.IsZero():
		l.unknown("No Job of %s has run yet.", own.ref())
	case own.kind == "CronJob":
		l.warn(own.kubectl("get jobs,pods -l %s=%s", nameLabel, product),
			"No pass is recorded, though %s began one at %s.", own.ref(), clock(own.lastSchedule))
	case !f.leader.known() || leads == nil || acquireTime(leads).IsZero() || f.now.Sub(acquireTime(leads)) < late:
		l.unknown("No pass is recorded yet.")
	default:
		l.warn(own.logs(), "No pass is recorded, though a replica leads since %s: it is older, cannot write Lease %s/%s, "+
			"or has not finished one.", clock(acquireTime(leads)), f.namespace, kube.PassLease)
	}
}
