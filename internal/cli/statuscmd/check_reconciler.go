package statuscmd

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	// leaderGone is for how long a Lease may not be renewed: another replica takes it after 15 s.
	leaderGone = 60 * time.Second
	// late is for how long a pass may be late. A restart makes one.
	late = 5 * time.Minute
	// lateJob is late for a CronJob: its pass waits for confirmations, and must be scheduled, pulled and started.
	lateJob = 20 * time.Minute
	// longestJob is for how long a Job may run (activeDeadlineSeconds in deploy/cronjob).
	longestJob = time.Hour
)

func sayReconciler(f *facts, l *lines) {
	own := f.own()
	switch {
	case !known(l, f.workloads, "Deployments, CronJobs and DaemonSets are"):
	case own == nil && len(f.workloads.value.reconcilers()) > 0:
		l.warn(fmt.Sprintf("kubectl get deployments,cronjobs -A -l %s=%s", kube.NameLabel, kube.Product),
			"The reconciler is not in namespace %s: give its own with --reconciler-namespace.", f.namespace)
	case own == nil && f.workloads.value.onlyIn != "":
		l.unknown("The reconciler is not in namespace %s; no other may be listed: give its own with --reconciler-namespace.",
			f.workloads.value.onlyIn)
	case own == nil:
		l.warn("helm install ip-reconcile deploy/helm/ip-reconcile -n "+f.namespace+
			" --set image.repository=example.com/ip-reconcile", "No Deployment or CronJob of ip-reconcile was found: nothing is freed but by hand.")
	case own.Kind == "CronJob" && own.Suspended:
		l.fail(own.suspend(false), "%s is suspended: nothing is freed.", own)
	case own.Kind == "CronJob":
		l.ok("%s runs at %q.", own, own.Schedule)
	case own.Wanted == 0:
		l.fail(own.do("scale", "--replicas=2"), "%s is scaled to 0 replicas: nothing is freed.", own)
	case own.Ready == 0:
		l.fail(own.pods(), "%s has none of its %s ready: nothing is freed.", own, plural(int(own.Wanted), "replica"))
	case own.Ready < own.Wanted:
		l.warn(own.pods(), "%s has %d of %d replicas ready.", own, own.Ready, own.Wanted)
	default:
		l.ok("%s has %d of %d replicas ready.", own, own.Ready, own.Wanted)
	}
}

func sayLeader(f *facts, l *lines) {
	own, lease := f.own(), f.leader.value
	name := f.namespace + "/" + kube.OwnLease
	switch {
	case own.Kind != "Deployment" || own.argument("--leader-elect") == "false":
	case !known(l, f.leader, "The leader, in Lease "+name+", is"):
	case lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		l.fail(own.logs(), "No replica leads (Lease %s has no holder): nothing is freed.", name)
	case f.now.Sub(renewTime(lease)) > leaderGone:
		l.fail(own.logs(), "No replica leads: %s has not renewed Lease %s for %s, and nobody took over. Nothing is freed.",
			*lease.Spec.HolderIdentity, name, ago(f.now.Sub(renewTime(lease))))
	default:
		l.ok("%s leads since %s.", *lease.Spec.HolderIdentity, clock(f.ledSince()))
	}
}

// ledSince is when the leader took its Lease; zero where that is not known.
func (f *facts) ledSince() time.Time {
	if f.leader.value == nil || f.leader.value.Spec.AcquireTime == nil {
		return time.Time{}
	}
	return f.leader.value.Spec.AcquireTime.Time
}

func saySchedule(f *facts, l *lines) {
	if !known(l, f.schedule, "The schedule is") {
		return
	}
	s := f.schedule.value
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
	at, err := f.schedule.value.next(last)
	if f.schedule.err != nil || err != nil {
		return time.Time{}, false
	}
	own, allowed := f.own(), late
	if own.Kind == "CronJob" {
		allowed = lateJob
		if own.Active > 0 {
			allowed += longestJob
		}
	}
	return at, f.now.Sub(at) > allowed
}

func sayLastPass(f *facts, l *lines) {
	own := f.own()
	if !known(l, f.passes, fmt.Sprintf("The last pass, in Lease %s/%s, is", f.namespace, kube.PassLease)) {
		return
	}
	p, err := f.lastPass()
	if err != nil {
		l.warn(kubectl(f.namespace, "delete lease %s", kube.PassLease), "The last pass is not known: %v.", err)
		return
	}
	if p == nil {
		sayNoPass(f, l, own)
		return
	}
	at, overdue := f.due(p.Succeeded)
	switch {
	case p.Result == reconciler.PassFailed && p.Succeeded.IsZero():
		l.fail(own.logs(), "The pass at %s failed (%s); none has succeeded before.", clock(p.At), p.Message)
	case p.Result == reconciler.PassFailed:
		l.fail(own.logs(), "The pass at %s failed (%s); the last that succeeded was at %s.", clock(p.At), p.Message, clock(p.Succeeded))
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
	if f.passes.value == nil {
		return nil, nil
	}
	return reconciler.ReadPass(f.passes.value.Annotations[kube.PassAnnotation])
}

// sayNoPass is for a reconciler that has recorded no pass.
func sayNoPass(f *facts, l *lines, own *workload) {
	began := own.LastSchedule
	if own.Kind == "Deployment" {
		if began = f.ledSince(); f.now.Sub(began) < late {
			began = time.Time{}
		}
	}
	if began.IsZero() {
		l.unknown("No pass is recorded yet.")
		return
	}
	l.warn(own.logs(), "No pass is recorded, though %s works since %s: it is older, cannot write Lease %s/%s, "+
		"or has not finished one.", own, clock(began), f.namespace, kube.PassLease)
}
