package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Breaker returns what the breaker counts at a judgement. It changes nothing.
func (r *Reconciler) Breaker(ctx context.Context, j *findings.Assessment) (plan.BreakerState, error) {
	if err := r.readReleases(ctx, j.Observation.Now); err != nil {
		return plan.BreakerState{}, err
	}
	return r.Process.releases.State(j.Observation.Now, j.Total, r.BreakerStore != nil && !r.Process.isStoreForbidden), nil
}

// readReleases takes over the releases that other processes have counted.
func (r *Reconciler) readReleases(ctx context.Context, now time.Time) error {
	return r.updateWindow(ctx, now, true, func(w plan.Window) plan.Window { return w })
}

// updateWindow changes the window in the BreakerStore. Where RBAC forbids the store, a dry run, and a process whose
// operator accepts that (WithoutRestoreStore), count the releases of this process. An API server that has just started
// forbids for a moment what it grants then, so each call asks again. With isDry it writes nothing.
func (r *Reconciler) updateWindow(
	ctx context.Context, now time.Time, isDry bool, change func(plan.Window) plan.Window,
) error {
	process, wasForbidden := r.Process, r.Process.isStoreForbidden
	if r.BreakerStore != nil {
		var next plan.Window
		err := r.BreakerStore.Update(ctx, func(kept string) (string, error) {
			w, err := plan.ReadWindow(kept, now)
			if err != nil {
				return "", err
			}
			if next = change(w); isDry {
				return kept, nil
			}
			return next.Text()
		})
		process.isStoreForbidden = errors.Is(err, apply.ErrForbidden)
		switch {
		case err == nil:
			process.releases = next
			return nil
		case !process.isStoreForbidden || !isDry && !r.WithoutRestoreStore:
			return err
		case !wasForbidden && (!isDry || r.Options.DryRun): // a view logs nothing
			r.Log.Warn("The breaker counts only the releases of this process: forbidden", "error", err)
		}
	}
	process.releases = change(process.releases.LastHour(now))
	return nil
}

// countInWindow counts the unconfirmed releases of a plan before they are made, because the process may end half-way.
// The plan refuses them if the releases of all processes are too many, or cannot be counted. n is how many it counts,
// or with isDry would count.
func (r *Reconciler) countInWindow(ctx context.Context, j *findings.Assessment, p *plan.Plan, isDry bool) (n int) {
	if n = plan.CountUnconfirmed(p.Release); n == 0 {
		return 0
	}
	gate := plan.Gate{Why: plan.Breaker}
	err := r.updateWindow(ctx, j.Observation.Now, isDry, func(w plan.Window) (next plan.Window) {
		if next, gate.Detail = p.Count(w); isDry {
			return w
		}
		return next
	})
	if err != nil {
		if errors.Is(err, apply.ErrForbidden) {
			err = fmt.Errorf("%w%s", err, leaseGrants)
		}
		gate = plan.Gate{Why: plan.WriteFailed,
			Detail: fmt.Sprintf("cannot count releases for the breaker, so nothing unconfirmed is released: %v", err)}
	}
	if gate.Detail == "" {
		return n
	}
	p.RefuseUnconfirmed(gate)
	return 0
}

// correctWindow corrects the count: only releases that were made count.
func (r *Reconciler) correctWindow(ctx context.Context, j *findings.Assessment, intended int, released []*judge.Item) {
	n := plan.CountUnconfirmed(released)
	if n == intended || r.Options.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now := j.Observation.Now
	err := r.updateWindow(ctx, now, false, func(w plan.Window) plan.Window { return w.Add(now, n-intended, j.Total) })
	if err != nil {
		r.Log.Warn("The breaker counts releases that were not made for an hour", "counted", intended, "made", n, "error", err)
	}
}
