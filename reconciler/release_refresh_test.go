package reconciler_test

import (
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
