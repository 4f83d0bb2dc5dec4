package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// leaseChecker is Leases that knows beforehand whether Hold may take Leases.
type leaseChecker interface {
	// CheckLeases returns ErrLeaseForbidden where RBAC forbids whereabouts' Leases; with any other error it is unknown.
	CheckLeases(ctx context.Context, namespace string, leases []string) error
}

// Plan returns what a pass would release from a judgement, and the gates against the rest. It writes nothing. Like a
// pass, it takes over the releases that other processes have counted.
func (r *Reconciler) Plan(ctx context.Context, j *findings.Assessment) *Plan {
	plan := r.plan(j.Judgement)
	r.countInWindow(ctx, j, plan, true)
	r.forecast(ctx, j, plan)
	r.checkLeases(ctx, plan)
	return plan
}

// forecast adds the breaker to the gates of items that await confirmation, if all of them together are too many.
func (r *Reconciler) forecast(ctx context.Context, j *findings.Assessment, plan *Plan) {
	var waits []*Refused
	var at time.Time
	for i := range plan.Refused {
		if x := &plan.Refused[i]; x.Why == AwaitingConfirmation && len(x.Also) == 0 {
			waits, at = append(waits, x), maxTime(at, x.Gate.At)
		}
	}
	if r.Options.AllowMassRelease || len(waits) == 0 {
		return
	}
	_ = r.readReleases(ctx, j.Observation.Now) // after an error the releases of this process count
	if text := r.Process.releases.breaker(at, plan.unconfirmed+len(waits), j.Total); text != "" {
		for _, x := range waits {
			x.Also = append(x.Also, Gate{Why: Breaker, Detail: text})
		}
	}
}

// checkLeases refuses the items of a plan whose Leases RBAC forbids. Where that is unknown the plan stays as it is.
func (r *Reconciler) checkLeases(ctx context.Context, plan *Plan) {
	checker, ok := r.Leases.(leaseChecker)
	if !ok {
		return
	}
	forbidden := map[string]bool{}
	plan.Release = slices.DeleteFunc(plan.Release, func(it *judge.Item) bool {
		namespace, leases := it.Namespace(), it.LeaseNames()
		isForbidden, known := forbidden[namespace]
		if !known {
			isForbidden = errors.Is(checker.CheckLeases(ctx, namespace, leases), apply.ErrLeaseForbidden)
			forbidden[namespace] = isForbidden
		}
		if isForbidden {
			plan.block(it, Gate{
				Why:    NoLease,
				Detail: leaseForbiddenDetail(namespace, leases) + " (checked for your account, not for the reconciler's)",
			})
		}
		return isForbidden
	})
}
