package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Two overlapping pools record an address for one podref, and share its
// reservation. It is deleted for the first entry, since the second is leaving too;
// the hold has no room for the second, and then its pod proves live.
func TestAReservationDeletedForOneOfTwoEntriesIsPutBackForTheOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		const small = "10.0.0.0-17"
		s.leaks(bluePool, 199)
		s.entry(bluePool, 200, "default/web-0", "box-blue", true)
		s.entry(small, 200, "default/web-0", "box-small", false)
		time.Sleep(5 * time.Minute)
		s.takes["delete"] = 400 * time.Millisecond
		s.step = func(call, _ string) {
			if call == "hold" && len(s.holds) == 1 {
				s.mu.Lock()
				t.Log("after the first hold:", entriesOf(s.pools[small])["200"], entriesOf(s.pools[bluePool])["200"], s.reservations[ippool.ReservationName("", addressOf(200))] != nil)
				s.mu.Unlock()
				s.pod("web-0", "u", 200)
			}
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		_, _ = run(t, r)
		stored := s.stored()
		if stored[fmt.Sprint(bluePool, " 200")] && !stored["reservation "+addressOf(200).String()] {
			t.Error("the entry of the running pod has no reservation any more")
		}
	})
}
