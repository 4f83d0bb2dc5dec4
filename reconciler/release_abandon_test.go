package reconciler_test

import (
	"testing"
	"time"
)

// The API server has trouble: patches fail, and a create takes half a second.
func TestEveryReservationIsPutBackHoweverManyThereAre(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 500)
		before := len(s.stored())
		time.Sleep(5 * time.Minute)
		s.takes["create"] = 500 * time.Millisecond
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		_, took := run(t, r)
		if now := len(s.stored()); now != before {
			t.Errorf("after %s %d of 500 reservations are not there, and their entries are", took, before-now)
		}
	})
}
