package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"slices"

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

// forecast adds the breaker to the gates of what awaits confirmation and will be too much when it is confirmed,
// if nothing is contradicted until then.
func (r *Reconciler) forecast(ctx context.Context, j *judge.Judgement, plan *Plan) {
	var waits []*Refused
	for i := range plan.Refused {
		if x := &plan.Refused[i]; x.Why == AwaitingConfirmation && len(x.Also) == 0 {
			waits = append(waits, x)
		}
	}
	if r.Options.AllowMassRelease || len(waits) == 0 {
		return
	}
	slices.SortStableFunc(waits, func(a, b *Refused) int { return a.Gate.At.Compare(b.Gate.At) })
	// Where the releases of other processes cannot be read, those of this one count.
	_ = r.dry().amendWindow(ctx, j.Observation.Now, func(w window) window { return w })
	behind := plan.count(Breaker)
	w := r.History.released.and(j.Observation.Now, plan.unconfirmed-behind, j.Total)
	for len(waits) > 0 {
		at, n := waits[0].Gate.At, len(waits)
		if i := slices.IndexFunc(waits, func(x *Refused) bool { return x.Gate.At.After(at) }); i >= 0 {
			n = i
		}
		if text := w.breaker(at, behind+n, j.Total); text != "" {
			behind += n
			for _, x := range waits[:n] {
				x.Also = append(x.Also, Gate{Why: Breaker, Detail: text})
			}
		} else {
			w = w.and(at, n, j.Total)
		}
		waits = waits[n:]
	}
}

// dry is a reconciler of the same history that writes nothing, and logs nothing: what goes
// wrong is in what it returns.
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
