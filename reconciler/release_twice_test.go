package reconciler_test

import (
	"testing"
	"time"
)

// Two pools of one network overlap, and both record the address.
func TestAReservationThatTwoEntriesShareIsReleasedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 5, "default/web-0", "box-1", true)
		s.entry("10.0.0.0-17", 5, "default/web-0", "box-2", false)
		time.Sleep(5 * time.Minute)
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "released", len(out.Released), 3)
	})
}
