package sim

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// fault is a failure of one request.
type fault struct {
	name   string
	writes bool // with writes only
	happen func(*Simulation, *call)
}

func faults() []fault {
	refuse := func(code int, reason metav1.StatusReason) func(*Simulation, *call) {
		return func(s *Simulation, w *call) {
			s.deliver(w, withDate(s, fakeapi.Failure(code, reason, "the simulation says so")))
		}
	}
	return []fault{
		{"cut before", false, func(s *Simulation, w *call) { w.reply(fakeapi.Answer{Err: errCut}) }},
		{"cut after", false, func(s *Simulation, w *call) {
			s.serve(w)
			s.deliver(w, fakeapi.Answer{Err: io.ErrUnexpectedEOF})
		}},
		{"timeout although done", true, func(s *Simulation, w *call) {
			s.serve(w)
			s.deliver(w, withDate(s, fakeapi.Failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
				"request did not complete within requested timeout")))
		}},
		{"429", false, func(s *Simulation, w *call) {
			a := withDate(s, fakeapi.Failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
				"the server has too many requests"))
			a.Retry = fmt.Sprint(1 + s.rng.IntN(8))
			s.deliver(w, a)
		}},
		{"500", false, refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{"503", false, refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		{"409", true, refuse(http.StatusConflict, metav1.StatusReasonConflict)},
		{"late", false, func(s *Simulation, w *call) { s.postpone(w, s.between(10*time.Millisecond, 3*time.Second)) }},
		{"answered late", false, func(s *Simulation, w *call) {
			a := s.serve(w)
			s.after(s.between(10*time.Millisecond, 3*time.Second), func() { s.deliver(w, a) })
		}},
		{"hangs", false, func(s *Simulation, w *call) { s.postpone(w, s.between(5*time.Second, longestHang)) }},
	}
}

func withDate(s *Simulation, a fakeapi.Answer) fakeapi.Answer {
	a.Date = s.api.Now()
	return a
}

func (s *Simulation) postpone(w *call, d time.Duration) {
	w.tries++
	w.held = time.Now().Add(d)
	s.waiting = append(s.waiting, w)
}

// drawFault is the fault of a call, nil for none.
func (s *Simulation) drawFault(w *call) *fault {
	if s.faulty && w.Method == http.MethodDelete && w.client.product && w.Key == s.late {
		s.late = key{}
		return s.faultNamed([]string{"hangs", "hangs", "429"}[s.rng.IntN(3)])
	}
	if !s.faulty || s.rng.IntN(1000) >= s.plan.Faults {
		return nil
	}
	f := s.faults[s.rng.IntN(len(s.faults))]
	// An API server answers the delete of a rollback with 409 only if the reservation is another object by now.
	if f.writes && !w.Writes() || f.name == "409" && w.Method == http.MethodDelete && w.client.recreates[w.Key] {
		return nil
	}
	return &f
}

// apiStarts begins the moment in which an API server that has just started denies what RBAC grants: its informers get
// the roles and their bindings one after the other.
func (s *Simulation) apiStarts() {
	s.away = false
	s.deniesUntil = time.Now().Add(s.between(0, longestDenial))
}

// longestDenial is how long an API server that has started denies requests at most.
const longestDenial = 8 * time.Second

// deniesYet reports whether the API server denies a request since it has just started.
func (s *Simulation) deniesYet() bool {
	if !time.Now().Before(s.deniesUntil) || !s.chance(60) {
		return false
	}
	s.count("denied while the API server starts")
	return true
}

func (s *Simulation) faultNamed(name string) *fault {
	return &s.faults[slices.IndexFunc(s.faults, func(f fault) bool { return f.name == name })]
}

// longestHang is how long a request hangs at most.
const longestHang = 40 * time.Second
