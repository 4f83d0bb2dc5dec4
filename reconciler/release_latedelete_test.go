package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// The delete of a reservation is on its way for longer than anybody waits for its answer. By the
// time that it arrives its pod has come back, and keeps the reservation that it found.
func TestADeleteThatArrivesLateFindsAnotherReservation(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		var late *ippool.Reservation
		s.fault = func(call, object string) (error, bool) {
			if call != "delete" || object != "10.0.0.1" || late != nil {
				return nil, false
			}
			s.mu.Lock()
			u := s.reservations[object]
			s.mu.Unlock()
			late = &ippool.Reservation{Namespace: u.GetNamespace(), Name: object, UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion()}
			s.pod("gone-1", "back", 1)
			s.entry(bluePool, 1, "default/gone-1", "box-new", false) // its ADD has seen the reservation, and keeps it
			return errServer, false
		}
		run(t, s.reconciler(t))
		if late == nil {
			t.Fatal("no reservation was deleted")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = s.DeleteReservation(ctx, late)
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation 10.0.0.1": true})
	})
}
