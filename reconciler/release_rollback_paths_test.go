package reconciler_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const smallPool = "10.0.0.0-24" // its range overlaps that of bluePool

// A reservation was deleted for an entry that is proven stale, and then something
// happens before the entry is removed, which fails the first time.
func TestAReservationIsPutBackUnlessWhatIsRecordedThereIsProvenStale(t *testing.T) {
	for says, c := range map[string]struct {
		happens func(t *testing.T, s *simulator)
		back    bool
	}{
		"nothing, and the entry is removed": {func(*testing.T, *simulator) {}, false},
		"its pod's next ADD reuses the entry, under an id that no report has": {func(_ *testing.T, s *simulator) {
			s.pod("web-0", "uid-2")
			s.entry(bluePool, 5, "default/web-0", "box-new", false)
		}, true},
		"an ADD reuses the entry, and the runtime says that its sandbox is gone, too": {func(_ *testing.T, s *simulator) {
			s.entry(bluePool, 5, "default/web-0", "box-gone", false)
		}, false},
		"its pod's next ADD takes the address in an overlapping pool": {func(t *testing.T, s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(t, smallPool, "5", map[string]any{"id": "box-new", "podref": "default/web-0", "ifname": "net1"})
		}, true},
		"so it does, and a DEL removes the entry": {func(t *testing.T, s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(t, smallPool, "5", map[string]any{"id": "box-new", "podref": "default/web-0", "ifname": "net1"})
			s.fill(t, bluePool, "5", nil)
		}, true},
		"a DEL removes the entry": {func(t *testing.T, s *simulator) { s.fill(t, bluePool, "5", nil) }, false},
		"another pod takes the address, and its ADD makes a reservation of its own later": {func(_ *testing.T, s *simulator) {
			s.pod("web-9", "uid-9")
			s.entry(bluePool, 5, "default/web-9", "box-new", false)
		}, false},
		"somebody writes a field that is not known into the entry": {func(t *testing.T, s *simulator) {
			s.fill(t, bluePool, "5", map[string]any{"id": "box-old", "podref": "default/web-0", "ifname": "net1", "until": "later"})
		}, true},
		"the range of the pool cannot be read any more": {func(_ *testing.T, s *simulator) { s.setRange(bluePool, "10.0.0.0/16 and more") }, true},
		"the pool is paused": {func(_ *testing.T, s *simulator) {
			s.change(bluePool, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"ip-reconcile.dev/paused": "true"})
			})
		}, true},
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.entry(bluePool, 5, "default/web-0", "box-old", true)
				s.poolOf(smallPool, "10.0.0.0/24")
				time.Sleep(5 * time.Minute)
				report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}, v1alpha1.Gone{ID: "box-gone", UID: "uid-0"})
				happened := false
				s.step = func(call, _ string) {
					s.heard(report)
					if call == "patch" && !happened {
						happened = true
						c.happens(t, s)
					}
				}
				failed := false
				s.fault = func(call, _ string) (error, bool) {
					if call != "patch" || failed {
						return nil, false
					}
					failed = true
					return errServer, false
				}
				r := s.reconciler(t)
				r.Options.ConfirmAfter = 15 * time.Minute
				if _, _, err := r.Pass(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if !happened {
					t.Fatal("no patch was sent")
				}
				if back := s.stored()["reservation 10.0.0.5"]; back != c.back {
					t.Errorf("the reservation is there: %v, want %v; stored: %v; calls: %v", back, c.back, s.stored(), s.calls)
				}
			})
		})
	}
}

// Its pod's next ADD, for which the entry in the first pool is proven stale still, saw
// the reservation and keeps it. Then the first patch fails.
func TestAReservationIsPutBackForTheOtherEntryThatNeedsItWhenOneIsFinished(t *testing.T) {
	for says, lost := range map[string]int{"": 0, "also where the answer to its delete was lost": 1} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.entry(bluePool, 5, "default/web-0", "box-old", true)
				s.poolOf(smallPool, "10.0.0.0/24")
				s.pod("web-0", "uid-2")
				time.Sleep(5 * time.Minute)
				report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"})
				fails := map[string]int{"delete": lost, "patch": 1}
				s.step = func(call, _ string) {
					s.heard(report)
					if call == "patch" && fails[call] > 0 {
						s.fill(t, smallPool, "5", map[string]any{"id": "box-new", "podref": "default/web-0", "ifname": "net1"})
					}
				}
				s.fault = func(call, _ string) (error, bool) {
					if fails[call] == 0 {
						return nil, false
					}
					fails[call]--
					return errServer, call == "delete"
				}
				r := s.reconciler(t)
				r.Options.ConfirmAfter = 15 * time.Minute
				for range 2 { // it is proven when it has been seen for a minute
					if _, _, err := r.Pass(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Minute)
				}
				same(t, "stored", s.stored(), map[string]bool{smallPool + " 5": true, "reservation 10.0.0.5": true})
			})
		})
	}
}

// fill gives a pool an entry under a key, or with nil takes it away.
func (s *simulator) fill(t *testing.T, pool, key string, entry map[string]any) {
	s.change(pool, func(u *unstructured.Unstructured) {
		entries := maps.Clone(entriesOf(u))
		if entries == nil {
			entries = map[string]any{}
		}
		delete(entries, key)
		if entry != nil {
			entries[key] = entry
		}
		if err := unstructured.SetNestedMap(u.Object, entries, "spec", "allocations"); err != nil {
			t.Fatal(err)
		}
	})
}

func (s *simulator) setRange(pool, text string) {
	s.change(pool, func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, text, "spec", "range") })
}

// change makes a new version of a pool.
func (s *simulator) change(pool string, f func(*unstructured.Unstructured)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pools[pool].DeepCopy()
	f(u)
	s.store(s.pools, u)
}
