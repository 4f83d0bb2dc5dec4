package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func TestRepairHoldsNoLeaseForAPausedPool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		s.pools[bluePool].SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.Repair = true
		began := time.Now()
		for range 5 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "calls", s.made("hold", "create", "patch"), []string{})
		same(t, "it took", time.Since(began), 5*time.Minute)
	})
}

// One busy Lease must not keep the loop from everything else.
func TestRepairDoesNotWaitForABusyLeaseAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		time.Sleep(5 * time.Minute)
		s.fault = func(call, _ string) (error, bool) {
			if call == "hold" {
				return reconciler.ErrLeaseBusy, false
			}
			return nil, false
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		for range 2 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "holds", fmt.Sprint(s.made("hold")), "[hold [whereabouts]]")
	})
}
