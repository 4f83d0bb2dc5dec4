package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A pool whose patches hang is given up until the next pass, and other pools do not wait for it.
func TestExecutor_HangingPatch(t *testing.T) {
	for _, also := range []int{0, 6} { // more pools that hang than are written at once
		bubble(t, func(t *testing.T, s *simulator) {
			const good = "zz-10.0.0.0-16"
			s.leaks(bluePool, 3)
			s.entry(good, 900, "default/gone-900", "box-900", true)
			for n := range also {
				name := fmt.Sprint("hangs-", n)
				s.entry(name+"-10.0.0.0-16", 800+n, "default/"+name, "box-"+name, true)
			}
			s.slow = func(call, object string) time.Duration {
				if call == "patch" && object != good {
					return time.Hour
				}
				return 0
			}
			r := s.reconciler(nil)
			began, goodAt := time.Now(), time.Time{}
			s.step = func(call, object string) {
				if call == "patch" && object == good {
					goodAt = time.Now()
				}
			}
			out, _, err := r.Pass(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			rounds := time.Duration(1 + (also+1)/2) // two pools are written at once
			same(t, "refused", refusalCounts(out), refusals{reconciler.WriteFailed: 3 + also})
			same(t, "the other pool has", len(entriesOf(s.pools[good])), 0)
			if took, most := goodAt.Sub(began), 13*time.Second*(rounds-1)+time.Second; took > most {
				t.Errorf("the other pool was patched after %s", took)
			}
			if took := time.Since(began); took > 13*time.Second*(rounds+1) {
				t.Errorf("the pass took %s", took)
			}
			t.Logf("%d hang: the other was patched after %s, the pass took %s", 1+also, goodAt.Sub(began), time.Since(began))
			for i := range 3 {
				if s.reservations[addressOf(1+i).String()] == nil {
					t.Errorf("the reservation of %s is lost", addressOf(1+i))
				}
			}
			for _, x := range out.Refused {
				if !strings.HasPrefix(x.Detail, "the API server did not answer for 10s") {
					t.Errorf("the detail is %q", x.Detail)
				}
			}
		})
	}
}
