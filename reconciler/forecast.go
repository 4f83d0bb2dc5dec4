package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// leaseChecker is a Writer that can tell beforehand whether Hold may take Leases.
type leaseChecker interface {
	// CheckLeases returns ErrLeaseForbidden where there is no right to whereabouts' Leases
	// in a namespace. Any other error means that this is not known.
	CheckLeases(ctx context.Context, namespace string, leases []string) error
}

// Plan is what a pass would do about a judgement now: what it would release, and for
// everything else that is Stale the gates that stand against it. It writes nothing; as a pass does, it takes over what
// other processes have released, which the breaker counts.
func (r *Reconciler) Plan(ctx context.Context, j *judge.Judgement) *Plan {
	dry := r.dry()
	plan := dry.History.plan(j, dry.Options)
	dry.countInWindow(ctx, j, plan)
	dry.forecast(ctx, j, plan)
	dry.checkLeases(ctx, plan)
	return plan
}

// forecast adds the breaker to the gates of what awaits confirmation, if all of it will be too much by the time at which
// the last is confirmed.
func (r *Reconciler) forecast(ctx context.Context, j *judge.Judgement, plan *Plan) {
	var waits []*Refused
	var at time.Time
	for i := range plan.Refused {
		if x := &plan.Refused[i]; x.Why == AwaitingConfirmation && len(x.Also) == 0 {
			waits, at = append(waits, x), later(at, x.Gate.At)
		}
	}
	if r.Options.AllowMassRelease || len(waits) == 0 {
		return
	}
	_ = r.readReleased(ctx, j.Observation.Now) // where that cannot be read, the releases of this process count
	if text := r.History.released.breaker(at, plan.unconfirmed+len(waits), j.Total); text != "" {
		for _, x := range waits {
			x.Also = append(x.Also, Gate{Why: Breaker, Detail: text})
		}
	}
}

// dry is a reconciler of the same history that writes nothing, and logs nothing: what goes wrong is in what it returns.
func (r *Reconciler) dry() *Reconciler {
	dry := *r
	dry.Options.DryRun, dry.Log = true, slog.New(slog.DiscardHandler)
	return &dry
}

// checkLeases takes out of a plan what needs Leases to which there is no right. Where
// that cannot be known the plan stays as it is: the release will tell.
func (r *Reconciler) checkLeases(ctx context.Context, plan *Plan) {
	checker, ok := r.Writer.(leaseChecker)
	if !ok {
		return
	}
	forbidden := map[string]bool{}
	plan.Release = slices.DeleteFunc(plan.Release, func(it *judge.Item) bool {
		namespace, leases := it.Namespace(), it.LeaseNames()
		no, known := forbidden[namespace]
		if !known {
			no = errors.Is(checker.CheckLeases(ctx, namespace, leases), ErrLeaseForbidden)
			forbidden[namespace] = no
		}
		if no {
			plan.refuse(it, Gate{Why: NoLease, Detail: noLease(namespace, leases) + "; this is about who asks, and not about a reconciler with rights of its own"})
		}
		return no
	})
}
