package reconciler_test

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Patches fail, and each of the first twenty reservations takes two calls that
// hang until the client gives up.
func TestCallsThatHangDoNotUseUpTheTimeInWhichOtherReservationsArePutBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 100)
		before := len(s.stored())
		time.Sleep(5 * time.Minute)
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return errServer, false
			}
			return nil, false
		}
		hanging := map[string]bool{}
		for i := range 20 {
			hanging[addressOf(i+1).String()] = true
		}
		var mu sync.Mutex
		hung := map[string]int{}
		s.slow = func(call, object string) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if call != "create" || !hanging[object] || hung[object] == 2 {
				return 0
			}
			hung[object]++
			return 30 * time.Second
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		_, _ = run(t, r)
		if now := len(s.stored()); now != before {
			t.Errorf("%d of 100 reservations are not there, and their entries are", before-now)
		}
		same(t, "hung", fmt.Sprint(len(hung)), "20")
	})
}
