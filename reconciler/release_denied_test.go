package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// keptByFinalizer answers a DELETE with success, and the object stays.
type keptByFinalizer struct{ *simulator }

func (f keptByFinalizer) DeleteReservation(context.Context, *ippool.Reservation) error { return nil }

// A reservation that stays is deleted once an hour, and counts once for the breaker.
func TestRelease_ReservationThatStays(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		for i := 1; i <= 40; i++ {
			name := fmt.Sprint("web-", i)
			s.entry(bluePool, i, "default/"+name, "box-"+name, false)
			s.pod(name, "u-"+name, i)
		}
		s.store(s.reservations, ippool.NewReservation("kube-system", networkOf(bluePool), addressOf(100), "default/gone", "net1"))
		time.Sleep(time.Hour)
		r := s.reconciler(t)
		r.Writer = keptByFinalizer{s}
		pass := func() *reconciler.Result {
			time.Sleep(5 * time.Second)
			out, _, err := r.Pass(t.Context(), nil)
			same(t, "error", err, nil)
			return out
		}
		released := 0
		for range 30 {
			released += len(pass().Released)
		}
		same(t, "released", released, 1)
		s.entry(bluePool, 101, "default/gone-2", "box-gone-2", false) // a leak like any other
		out := pass()
		same(t, "refused", len(out.Refused), 1)
		same(t, "why", out.Refused[0].Why, reconciler.Changed)
		time.Sleep(time.Hour)
		same(t, "released an hour later", len(pass().Released), 1)
	})
}

// An answer that says that the pool has changed, while it has not, is a denial.
func TestRelease_ConflictWithoutAChange(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		time.Sleep(time.Hour)
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return fmt.Errorf("%w: ValidatingAdmissionPolicy 'protect' denied request", reconciler.ErrConflict), false
			}
			return nil, false
		}
		out, _, err := s.reconciler(t).Pass(t.Context(), nil)
		same(t, "error", err, nil)
		same(t, "patches", len(s.made("patch")), 2)
		for _, x := range out.Refused {
			same(t, "why", x.Why, reconciler.WriteFailed)
		}
		same(t, "refused", len(out.Refused), 1)
	})
}

// A run that is ended promises nothing.
func TestRun_WaitsNoLongerThanItMay(t *testing.T) {
	for most, want := range map[time.Duration]int{30 * time.Minute: 1, 2 * time.Hour: 0, 0: 0} {
		bubble(t, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 1)
			time.Sleep(time.Hour)
			r := s.reconciler(t)
			r.Options.ConfirmAfter, r.Options.MaxWait = time.Hour, most
			began := time.Now()
			out, err := r.Run(t.Context())
			same(t, "error", err, nil)
			same(t, "refused", len(out.Refused), want)
			if took := time.Since(began); want > 0 && took > most {
				t.Errorf("it waited %s", took)
			}
			if want > 0 {
				same(t, "when", out.Refused[0].At(), time.Time{})
			}
		})
	}
}

func TestRun_EndedWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		time.Sleep(time.Hour)
		r := s.reconciler(t)
		r.Options.ConfirmAfter = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		out, err := r.Run(ctx)
		same(t, "error", err, nil)
		same(t, "refused", len(out.Refused), 1)
		same(t, "why", out.Refused[0].Why, reconciler.AwaitingConfirmation)
		same(t, "when", out.Refused[0].At(), time.Time{})
		same(t, "detail", out.Refused[0].Detail, "it was not confirmed when the run was ended: run again")
	})
}
