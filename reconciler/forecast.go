package reconciler

import (
	"context"
	"errors"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// leaseChecker is Leases that knows beforehand whether Hold may take Leases.
type leaseChecker interface {
	// CheckLeases returns ErrLeaseForbidden where RBAC forbids whereabouts' Leases; with any other error it is unknown.
	CheckLeases(ctx context.Context, namespace string, leases []string) error
}

// Plan returns what a pass would release from a judgement, and the gates against the rest. It writes nothing. Like a
// pass, it takes over the releases that other processes have counted.
func (r *Reconciler) Plan(ctx context.Context, j *findings.Assessment) *plan.Plan {
	p := r.plan(j.Judgement)
	r.countInWindow(ctx, j, p, true)
	r.forecast(ctx, j, p)
	r.checkLeases(ctx, p)
	return p
}

// forecast adds the breaker to the gates of items that await confirmation, if all of them together are too many.
func (r *Reconciler) forecast(ctx context.Context, j *findings.Assessment, p *plan.Plan) {
	if p.NeedsForecast() {
		_ = r.readReleases(ctx, j.Observation.Now) // after an error the releases of this process count
		p.Forecast(r.Process.releases)
	}
}

// checkLeases refuses the items of a plan whose Leases RBAC forbids. Where that is unknown the plan stays as it is.
func (r *Reconciler) checkLeases(ctx context.Context, p *plan.Plan) {
	checker, ok := r.Leases.(leaseChecker)
	if !ok {
		return
	}
	forbidden := map[string]bool{}
	p.Release = slices.DeleteFunc(p.Release, func(it *judge.Item) bool {
		namespace, leases := it.Namespace(), it.LeaseNames()
		isForbidden, known := forbidden[namespace]
		if !known {
			isForbidden = errors.Is(checker.CheckLeases(ctx, namespace, leases), apply.ErrLeaseForbidden)
			forbidden[namespace] = isForbidden
		}
		if isForbidden {
			p.Block(it, plan.Gate{
				Why:    plan.NoLease,
				Detail: leaseForbiddenDetail(namespace, leases) + " (checked for your account, not for the reconciler's)",
			})
		}
		return isForbidden
	})
}
