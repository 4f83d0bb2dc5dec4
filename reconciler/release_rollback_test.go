package reconciler_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Without the Lease an ADD comes between the delete of the reservation, which it
// has seen and keeps, and the patch. Its sandbox is not in a report yet.
func TestAReservationIsPutBackForAnEntryWhoseSandboxNoReportHasYet(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 5, "default/web-0", "box-old", true)
		time.Sleep(5 * time.Minute)
		report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"})
		added := false
		s.step = func(call, _ string) {
			s.heard(report)
			if call == "patch" && !added {
				added = true
				s.pod("web-0", "uid-2")
				s.entry(bluePool, 5, "default/web-0", "box-new", false)
			}
		}
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		if _, _, err := r.Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		s.pod("web-0", "uid-2", 5) // the ADD was done, and the pod runs
		if stored := s.stored(); !stored["reservation 10.0.0.5"] {
			t.Errorf("the pod runs without its reservation: %v; calls: %v", stored, s.calls)
		}
	})
}

// The next turn with the Lease may be long in coming: what proves live has its
// reservation back before it.
func TestWhatProvesLiveAfterAFailedPatchHasItsReservationBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.fault = func(call, _ string) (error, bool) {
			if call != "patch" || len(s.holds) > 1 {
				return nil, false
			}
			s.pod("gone-1", "back", 1)
			s.entry(bluePool, 1, "default/gone-1", "box-new", false) // its ADD has seen the reservation, and keeps it
			return errServer, false
		}
		out, _ := run(t, s.reconciler(t))
		same(t, "calls", s.made("hold", "create")[:2], []string{"hold [whereabouts]", "create 10.0.0.1"})
		same(t, "released", len(out.Released), 2)
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation 10.0.0.1": true})
	})
}
