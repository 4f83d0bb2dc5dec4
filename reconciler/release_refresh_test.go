package reconciler_test

import (
	"testing"
	"time"
)

// ADDs keep the Lease busy, and to read again what is not read live takes two
// seconds in a large cluster.
func TestALongWaitForTheLeaseAndASlowRefreshDoNotStopEveryRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 10)
		s.takes["hold"], s.takes["refresh"] = 6*time.Second, 2100*time.Millisecond
		out, took := run(t, s.reconciler(nil))
		if len(out.Released) == 0 {
			t.Errorf("nothing was released in %s and %d holds: %v", took, len(s.holds), why(out))
		}
	})
}
