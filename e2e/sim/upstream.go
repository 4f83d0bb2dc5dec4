package sim

import (
	"context"
	"time"

	wbreconciler "github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
)

// startUpstream starts whereabouts v0.9.4's own reconciler in place of the product, at the product's times. Histories
// that find none of its wrong releases are blind.
func (s *Simulation) startUpstream(ctx context.Context, r *replica) {
	p, err := s.plugins.take(r.as)
	if err != nil {
		s.fail("set up whereabouts' reconciler: %v", err)
		return
	}
	r.restored = func() time.Time { return time.Time{} } // it knows of none
	s.start(func() {
		defer r.as.post(func() { s.plugins.giveBack(p) })
		for ctx.Err() == nil {
			looper, err := wbreconciler.NewReconcileLooperWithClient(p.Client)
			if err == nil {
				_, err = looper.ReconcileIPPools()
			}
			if err == nil {
				_ = looper.ReconcileOverlappingIPAddresses()
			}
			select {
			case <-ctx.Done():
			case <-time.After(s.plan.Every):
			case <-r.nudged:
			}
		}
	})
}
