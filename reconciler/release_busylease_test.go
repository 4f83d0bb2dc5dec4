package reconciler_test

import (
	"context"
	"testing"
	"time"
)

// One node's slice has its own Lease under load. The other slice's is free.
func TestASliceWithManyItemsWhoseLeaseIsBusyKeepsNobodyWaitingForLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks("worker-1-"+bluePool, 1100)
		s.entry("worker-2-"+bluePool, 1, "default/gone", "box", false)
		s.busy = map[string]int{"worker-1-" + bluePool: 1 << 30}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		_, err := r.Run(ctx)
		if s.stored()["worker-2-"+bluePool+" 1"] {
			t.Errorf("after ten minutes and %d holds of the shared Lease the other slice's entry is there: %v", len(s.holds), err)
		}
	})
}

// The same with few items: how often is the shared Lease taken for nothing?
func TestASliceWhoseLeaseIsBusyDoesNotHaveTheSharedOneTakenForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks("worker-1-"+bluePool, 100)
		s.busy = map[string]int{"worker-1-" + bluePool: 1 << 30}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		_, took := run(t, r)
		if len(s.holds) > 20 {
			t.Errorf("%d holds in %s, and nothing written", len(s.holds), took)
		}
	})
}
