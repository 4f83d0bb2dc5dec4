package reconciler

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// leaseChecker is Leases that knows beforehand whether Hold may take Leases.
type leaseChecker interface {
	// ForbiddenLeases returns those of whereabouts' Leases that RBAC forbids to take. With an error only some are known.
	ForbiddenLeases(ctx context.Context, namespace string, leases []string) (forbidden []string, err error)
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
	leases := map[string][]string{} // by namespace
	for _, it := range p.Release {
		leases[it.Namespace()] = append(leases[it.Namespace()], it.LeaseNames()...)
	}
	forbidden := map[types.NamespacedName]bool{}
	for namespace, names := range leases {
		found, err := checker.ForbiddenLeases(ctx, namespace, facts.SortedUnique(names))
		if err != nil {
			r.Log.Debug("Unknown whether whereabouts' Leases may be taken", "namespace", namespace, "error", err)
		}
		for _, name := range found {
			forbidden[types.NamespacedName{Namespace: namespace, Name: name}] = true
		}
	}
	p.Release = slices.DeleteFunc(p.Release, func(it *judge.Item) bool {
		namespace, names := it.Namespace(), it.LeaseNames()
		isForbidden := slices.ContainsFunc(names, func(name string) bool {
			return forbidden[types.NamespacedName{Namespace: namespace, Name: name}]
		})
		if isForbidden {
			p.Block(it, plan.Gate{
				Why:    plan.NoLease,
				Detail: leaseForbiddenDetail(namespace, names) + " (checked for your account, not for the reconciler's)",
			})
		}
		return isForbidden
	})
}
