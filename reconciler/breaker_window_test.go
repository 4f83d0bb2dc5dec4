package reconciler_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// pass makes one, without waiting, in a process that has just started.
func (s *simulator) pass(t *testing.T) *reconciler.Result {
	t.Helper()
	out, _, err := s.reconciler(t).Pass(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheBreakerCountsReservationsThatStandAlone(t *testing.T) {
	for says, c := range map[string]struct {
		entries, alone int
		want           map[reconciler.Refusal]int
	}{
		"21 of them":                    {1, 20, map[reconciler.Refusal]int{reconciler.Breaker: 21}},
		"20, which is no mass release":  {0, 20, map[reconciler.Refusal]int{}},
		"many, with entries beside":     {15, 15, map[reconciler.Refusal]int{reconciler.Breaker: 30}},
		"few, of what is recorded more": {10, 10, map[reconciler.Refusal]int{}},
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.poolOf(bluePool, "10.0.0.0/16")
				if c.entries > 0 {
					s.leaks(bluePool, c.entries)
				}
				s.alone(101, 100+c.alone)
				time.Sleep(5 * time.Minute)
				out := s.pass(t)
				same(t, "refused", refusalCounts(out), c.want)
				if len(c.want) > 0 {
					same(t, "released", len(out.Released), 0)
				}
			})
		})
	}
}

// A process that is restarted again and again must not release as much each time.
func TestTheBreakersWindowOutlivesTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		released := 0
		for i := range 5 {
			for key := 1; key <= 12; key++ {
				s.entry(bluePool, 100*i+key, fmt.Sprintf("default/gone-%d-%d", i, key), fmt.Sprintf("box-%d-%d", i, key), false)
			}
			released += len(s.pass(t).Released)
			time.Sleep(time.Minute)
		}
		same(t, "released by five processes", released, 12)
		time.Sleep(time.Hour)
		s.changePool(bluePool, func(u *unstructured.Unstructured) { // what is left of them
			entries := maps.Clone(entriesOf(u))
			maps.DeleteFunc(entries, func(key string, _ any) bool { return len(key) != 3 || key[0] != '1' })
			_ = unstructured.SetNestedMap(u.Object, entries, "spec", "allocations")
		})
		same(t, "released an hour later", len(s.pass(t).Released), 12)
	})
}

func TestReservationsThatAnEarlierProcessReleasedCountToo(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		s.alone(1, 12)
		time.Sleep(5 * time.Minute)
		same(t, "released", len(s.pass(t).Released), 12)
		s.alone(101, 112)
		time.Sleep(5 * time.Minute)
		same(t, "refused", refusalCounts(s.pass(t)), map[reconciler.Refusal]int{reconciler.Breaker: 12})
	})
}

func TestWhatIsAboutToBeReleasedIsCountedBefore(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 15)
		before := ""
		s.step = func(call, _ string) {
			if call == "hold" && before == "" {
				before = s.kept
			}
		}
		s.pass(t)
		if !strings.Contains(before, `"count":15`) {
			t.Errorf("before the first write %q was kept, which does not count 15", before)
		}
	})
}

func TestWhatWasNotReleasedIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 15)
		s.fault = failing("hold", errServer)
		same(t, "refused", refusalCounts(s.pass(t)), map[reconciler.Refusal]int{reconciler.WriteFailed: 15})
		same(t, "kept", s.kept, "")
		s.fault = nil
		same(t, "released by the next process", len(s.pass(t).Released), 30)
	})
}

// Without the count a fault elsewhere would have no limit; what is proven needs none.
func TestNothingUnconfirmedIsReleasedThatCannotBeCounted(t *testing.T) {
	for says, fails := range map[string]func(*simulator){
		"the API server does not answer": func(s *simulator) { s.fault = failing("amend", errServer) },
		"what is kept cannot be read":    func(s *simulator) { s.kept = "12 or so" },
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 3)
				report := goneOn("worker-1", v1alpha1.Gone{ID: "box-1", UID: "uid-1"})
				s.step = func(string, string) { s.heard(report) }
				fails(s)
				kept := s.kept
				out := s.pass(t)
				same(t, "released", len(out.Released), 2) // with its reservation
				same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.WriteFailed: 2})
				same(t, "kept", s.kept, kept)
			})
		})
	}
}

func TestWithoutTheRightToAWindowTheBreakerCountsByItself(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.fault = failing("amend", fmt.Errorf("get Lease: %w", reconciler.ErrForbidden))
		s.leaks(bluePool, 15)
		r := s.reconciler(t)
		for i, want := range []int{30, 0} {
			out, _, err := r.Pass(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprint("released by pass ", i+1), len(out.Released), want)
			s.leaks(bluePool, 15)
		}
		same(t, "asked", len(s.made("amend")), 1)
	})
}

func TestADryRunCountsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 15)
		r := s.reconciler(t)
		r.Options.DryRun = true
		for range 2 {
			out, _, err := r.Pass(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.DryRunRefusal: 15})
		}
		same(t, "kept", s.kept, "")
	})
}

// The clock of an API server was a day ahead when it was written.
func TestAWindowOfTheFutureIsOverAfterAnHour(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.kept = fmt.Sprintf(`[{"at":%q,"count":15,"of":15}]`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
		s.leaks(bluePool, 15)
		same(t, "refused", refusalCounts(s.pass(t)), map[reconciler.Refusal]int{reconciler.Breaker: 15})
		time.Sleep(61 * time.Minute)
		same(t, "released an hour later", len(s.pass(t).Released), 30)
	})
}

func TestTheWindowStaysSmallHoweverManyPassesThereAre(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		for key := range 1000 {
			s.entry(bluePool, key+1, fmt.Sprint("default/gone-", key), fmt.Sprint("box-", key), false)
			r := s.reconciler(nil)
			r.Options.AllowMassRelease = true
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
		}
		if len(s.kept) > 4000 {
			t.Errorf("%d bytes are kept", len(s.kept))
		}
		same(t, "released", len(s.stored()), 0)
	})
}

// What a full pass refuses stays refused, also where it released what is
// proven.
func TestWhatTheBreakerHasRefusedIsNotReleasedBitByBitBesideWhatIsProven(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.leaks(bluePool, 60)
		report := goneOn("worker-1", v1alpha1.Gone{ID: "box-60", UID: "uid-1"})
		s.step = func(string, string) { s.heard(report) }
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		out, _, err := r.Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "released by the pass", len(out.Released), 2)
		name := addressOf(7).String()
		s.mu.Lock()
		u := s.reservations[name]
		u.SetLabels(map[string]string{"a": "b"})
		s.store(s.reservations, u)
		s.mu.Unlock()
		if out, _, err = r.Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "released by the next pass", len(out.Released), 0)
	})
}

func TestWhatTheBreakerCountsIsAskedWithoutChangingIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 15)
		s.pass(t)
		kept := s.kept
		recent, err := s.reconciler(t).Recent(t.Context(), time.Now())
		if want := (reconciler.Recent{Releases: 15, Of: 15, Shared: true}); err != nil || recent != want {
			t.Errorf("got %+v, %v, want %+v", recent, err, want)
		}
		recent, err = s.reconciler(t).Recent(t.Context(), time.Now().Add(61*time.Minute))
		if err != nil || recent.Releases != 0 {
			t.Errorf("an hour later: %+v, %v", recent, err)
		}
		same(t, "kept", s.kept, kept)
		alone := s.reconciler(t)
		alone.Window = nil
		if recent, err = alone.Recent(t.Context(), time.Now()); err != nil || recent.Shared || recent.Releases != 0 {
			t.Errorf("where nothing is shared: %+v, %v", recent, err)
		}
		s.kept = `[{"at":"2100-01-01T00:00:00Z","count":3,"of":9}]` // which a release would mend
		kept = s.kept
		if recent, err = s.reconciler(t).Recent(t.Context(), time.Now()); err != nil || recent.Releases != 3 {
			t.Errorf("of the future: %+v, %v", recent, err)
		}
		same(t, "kept of the future", s.kept, kept)
		s.fault = failing("amend", errServer)
		if _, err = s.reconciler(t).Recent(t.Context(), time.Now()); err == nil {
			t.Error("what cannot be read is told as nothing")
		}
	})
}
