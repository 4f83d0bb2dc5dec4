package statuscmd

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	// leaderGone is after how long without a renewal nobody leads: its Lease is of 15 s
	// (internal/cli/servecmd), and who waits tries every 2 s.
	leaderGone = 40 * time.Second
	// late is for how long a pass may be late: it takes its time.
	late = 5 * time.Minute
	// lateJob is the same of a CronJob's, whose pass waits for confirmations and must be
	// scheduled, pulled and started.
	lateJob = 20 * time.Minute
	// longestJob is for how long a Job may run (activeDeadlineSeconds in deploy/cronjob).
	longestJob = time.Hour
)

// renewed is when a Lease was renewed last, by the API server's clock where it tells.
func renewed(l *coordinationv1.Lease) time.Time {
	if at := podstate.LeaseRenewed(l); !at.IsZero() {
		return at
	}
	return ptr.Deref(l.Spec.RenewTime, zeroTime()).Time
}

func (f *facts) sayLeader(l *lines) {
	const id = "leader"
	own := ownWorkload(f)
	if own == nil || own.kind != "Deployment" || own.argument("--leader-elect") == "false" {
		return
	}
	lease := f.leader.value
	switch {
	case !f.leader.known():
		l.unknown(id, "The leader is not known: Lease %s/%s: %s.", f.namespace, kube.OwnLease, f.leader.why())
	case lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		l.fail(id, own.logs(), "No replica leads (Lease %s/%s has no holder): nothing is freed.", f.namespace, kube.OwnLease)
	case f.now.Sub(renewed(lease)) > leaderGone:
		l.fail(id, own.logs(), "No replica leads: %s has not renewed Lease %s/%s for %s, and nobody took over. Nothing is freed.",
			*lease.Spec.HolderIdentity, f.namespace, kube.OwnLease, ago(f.now.Sub(renewed(lease))))
	default:
		l.ok(id, "%s leads since %s.", *lease.Spec.HolderIdentity, clock(ptr.Deref(lease.Spec.AcquireTime, zeroTime()).Time))
	}
}

func (f *facts) sayPasses(l *lines) {
	own := ownWorkload(f)
	if own == nil {
		return
	}
	next, due := f.saySchedule(l, own)
	const id = "last-pass"
	if !f.passes.known() {
		l.unknown(id, "The last pass is not known: Lease %s/%s: %s.", f.namespace, kube.PassLease, f.passes.why())
		return
	}
	kept := ""
	if f.passes.value != nil {
		kept = f.passes.value.Annotations[kube.PassAnnotation]
	}
	p, err := reconciler.ReadPass(kept)
	switch {
	case err != nil:
		l.warn(id, fmt.Sprintf("kubectl -n %s delete lease %s", f.namespace, kube.PassLease), "%s.", capital(err.Error()))
	case p == nil:
		f.sayNoPass(l, own)
	case p.Result == reconciler.PassFailed:
		since := "none has succeeded before"
		if !p.Succeeded.IsZero() {
			since = "the last that succeeded was at " + clock(p.Succeeded)
		}
		l.fail(id, own.logs(), "The pass at %s failed (%s); %s.", clock(p.At), p.Message, since)
	case due(p.Succeeded):
		at, _ := next(p.Succeeded)
		l.fail(id, own.logs(), "The last pass was %s ago, at %s, and one is overdue since %s.", ago(f.now.Sub(p.Succeeded)), clock(p.Succeeded), clock(at))
	default:
		text := ""
		if at, err := next(p.Succeeded); err == nil {
			text = "; the next is due at " + clock(at)
		}
		l.ok(id, "The last pass succeeded %s ago (it took %s and freed %d)%s.", ago(f.now.Sub(p.Succeeded)), p.Took, p.Released, text)
	}
}

// saySchedule says where the schedule is wrong. next is when a pass is due after another;
// due whether one is overdue by now.
func (f *facts) saySchedule(l *lines, own *workload) (next func(time.Time) (time.Time, error), overdue func(time.Time) bool) {
	const id = "schedule"
	never := func(time.Time) bool { return false }
	s := f.schedule.value
	if !f.schedule.known() {
		l.unknown(id, "The schedule is not known: %s.", f.schedule.why())
		return func(time.Time) (time.Time, error) { return time.Time{}, f.schedule.err }, never
	}
	at, err := s.next(f.now)
	if err != nil {
		l.fail(id, s.edit, "The schedule in %s cannot be used: %v. The last one that could be used, or the default, is in force.", s.source, err)
		return s.next, never
	}
	l.ok(id, "Passes are due at %q (%s), next at %s.", s.expression, s.source, clock(at))
	allowed := late
	if own.kind == "CronJob" {
		allowed = lateJob
		if own.active > 0 {
			allowed = longestJob + lateJob
		}
	}
	return s.next, func(last time.Time) bool {
		at, err := s.next(last)
		return err == nil && f.now.Sub(at) > allowed
	}
}

// sayNoPass is for a reconciler that has recorded none.
func (f *facts) sayNoPass(l *lines, own *workload) {
	const id = "last-pass"
	if own.kind == "CronJob" {
		if own.lastSchedule.IsZero() {
			l.unknown(id, "No Job of %s has run yet.", own.ref())
			return
		}
		l.warn(id, fmt.Sprintf("kubectl -n %s get jobs,pods -l %s=%s", own.namespace, nameLabel, product),
			"No pass is recorded, though %s began one at %s.", own.ref(), clock(own.lastSchedule))
		return
	}
	leads := f.leader.value
	if !f.leader.known() || leads == nil || leads.Spec.AcquireTime == nil || f.now.Sub(leads.Spec.AcquireTime.Time) < late {
		l.unknown(id, "No pass is recorded yet.")
		return
	}
	l.warn(id, own.logs(), "No pass is recorded, though a replica leads since %s: it is older, cannot write Lease %s/%s, or has not finished one.",
		clock(leads.Spec.AcquireTime.Time), f.namespace, kube.PassLease)
}
