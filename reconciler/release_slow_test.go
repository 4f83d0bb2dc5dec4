package reconciler_test

import (
	"testing"
	"time"
)

// Every DELETE takes 900 ms: an answer that is late.
func TestASlowServerDoesNotHaveEveryReservationDeletedBeforeTheFirstEntry(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 200)
		s.takes["delete"] = 900 * time.Millisecond
		worst := 0
		s.step = func(string, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			worst = max(worst, len(entriesOf(s.pools[bluePool]))-len(s.reservations))
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, took := run(t, r)
		t.Log(len(out.Released), took, len(s.holds), refusalCounts(out))
		if worst > 32 {
			t.Errorf("%d entries were without their reservation at once", worst)
		}
	})
}
