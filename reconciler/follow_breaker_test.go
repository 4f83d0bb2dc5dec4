package reconciler_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What a full pass refuses as a mass release must not be released bit by
// bit because something small of it changes.
func TestWhatTheBreakerHasRefusedIsNotReleasedBecauseItIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.leaks(bluePool, 60)
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		if _, _, err := r.Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		out, _, err := r.Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "released by the pass", len(out.Released), 0)
		released := 0
		for _, name := range slices.Sorted(maps.Keys(s.reservations)) { // somebody puts a label on the reservation
			s.mu.Lock()
			u := s.reservations[name]
			if u == nil {
				s.mu.Unlock()
				continue
			}
			u.SetLabels(map[string]string{"a": "b"})
			s.store(s.reservations, u)
			now := ippool.ReadReservation(u.DeepCopy())
			s.mu.Unlock()
			time.Sleep(200 * time.Millisecond)
			done := r.Follow(t.Context(), out.Judgement, &judge.Live{Now: time.Now(),
				Reservations: map[types.NamespacedName]*ippool.Reservation{{Namespace: now.Namespace, Name: now.Name}: now}}, nil)
			for _, it := range done.Released {
				if it.Allocation != nil {
					released++
				}
			}
		}
		same(t, "entries released by what was followed", released, 0)
	})
}
