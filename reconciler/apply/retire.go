package apply

import (
	"context"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// retirePools deletes the pools of the changes that consist of that. The end of the hold before the answer makes no
// difference: an ADD that came in between has changed the resourceVersion, which the delete tests.
func (e *executor[C]) retirePools(ctx context.Context, h *hold, changes []C, written *facts.Live) {
	var retired []C
	for _, c := range changes {
		if c.Steps().Retire != nil {
			retired = append(retired, c)
		}
	}
	errs := inParallel(parallelPools, retired, func(c C) error {
		if !h.mayBegin(e.Clock) {
			return ErrHoldSpent
		}
		return e.writeUnderHold(ctx, h, func(ctx context.Context) error { return h.DeletePool(ctx, c.Steps().Retire) })
	})
	for i, c := range retired {
		if c.Note(Step{}, errs[i]); errs[i] == nil {
			written.Pools[c.Steps().Retire.Pool()] = nil
		}
	}
}
