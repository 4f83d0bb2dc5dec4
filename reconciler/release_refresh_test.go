package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// ADDs keep the Lease busy, and to read again what is not read live takes two
// seconds in a large cluster.
func TestALongWaitForTheLeaseAndASlowRefreshDoNotStopEveryRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 10)
		s.takes["hold"], s.takes["refresh"] = 6*time.Second, 2100*time.Millisecond
		out, took := run(t, s.reconciler(nil))
		if len(out.Released) == 0 {
			t.Errorf("nothing was released in %s and %d holds: %v", took, len(s.holds), refusalCounts(out))
		}
	})
}

// The API server tells the time to the second: a pass between seconds seems to be
// later than what is read again after it.
func TestWhatTheFirstCheckConfirmedIsNotRefusedForTheServersCoarserClock(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		s.behind = 900 * time.Millisecond
		out, until, err := s.reconciler(t).Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "released", len(out.Released), 6)
		same(t, "nothing waits", until.IsZero(), true)
	})
}

// Pools of node slices have a Lease each, and 15 of them go into one hold. What is not read live
// (Nodes, reports, definitions) is read again for all of them together.
func TestPoolsOfManySlicesAreReadAgainOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		for i := 1; i <= 300; i++ {
			s.entry(fmt.Sprintf("node-%d-10.0.0.0-16", i), i, fmt.Sprint("default/gone-", i), fmt.Sprint("box-", i), false)
		}
		time.Sleep(time.Hour)
		r := s.reconciler(t)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		same(t, "released", len(out.Released), 300)
		if n, holds := len(s.made("refresh")), len(s.made("hold")); n > 3 || holds < 20 {
			t.Errorf("all was read again %d times, for %d holds", n, holds)
		}
	})
}
