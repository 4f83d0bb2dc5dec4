//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// once calls happen at the first request for which is holds.
func once(is func(r *http.Request) bool, happen func()) func(r *http.Request) {
	happen = sync.OnceFunc(happen)
	return func(r *http.Request) {
		if is(r) {
			happen()
		}
	}
}

// asks matches requests by their method and a part of their path.
func asks(method, part string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, part) }
}

// has checks that 10.1.0.1 on blue is a pod's: the allocation and the reservation.
func (s *stage) has(t *testing.T, p *pod) (reservationUID string) {
	t.Helper()
	stored := s.contents(t)
	uid, reservation, _ := strings.Cut(stored["reservation 10.1.0.1"], " ")
	equal(t, "the entry", stored["10.1.0.0-24 1"], fmt.Sprintf(`{"id":"%s","ifname":"net1","podref":"default/%s"}`,
		p.sandbox.ID, p.Name))
	equal(t, "the reservation", reservation, fmt.Sprintf(`{"ifname":"net1","podref":"default/%s"}`, p.Name))
	return uid
}

// TestRace_PodComesBack leaks 10.1.0.1 of web and recreates web at every moment of the release. ADD
// finds the allocation by name, takes it over, and keeps a reservation that exists. Without the Lease ADDs may run at
// any moment: what the Lease makes rare must be safe all the same.
func TestRace_PodComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for _, moment := range []struct {
		name      string
		is        func(r *http.Request) bool
		answered  bool // after the request; else before
		recreated bool // the reservation in the end is not the one that ADD kept or created
	}{
		{"before the live read", asks(http.MethodGet, "/ippools/10.1.0.0-24"), false, false},
		{"between the live read and the first write", asks(http.MethodGet, "/pods/web"), true, true},
		{"just before its reservation is deleted", asks(http.MethodDelete, "/overlappingrangeipreservations/"), false, true},
		{"just after that, so that ADD makes its own", asks(http.MethodPatch, "/ippools/"), false, false},
	} {
		s.play(t, moment.name, func(t *testing.T) {
			s.up(t, "worker-1", "web", blue).leak(t)
			var web *pod
			var addLeft string // the reservation, by its UID, when ADD returned
			back := once(moment.is, func() {
				web = s.pending(t, "worker-2", "web", blue)
				addLeft = s.has(t, web)
			})
			l, kubeconfig := s.link(t)
			if moment.answered {
				l.suffers(faults{answered: back})
			} else {
				l.suffers(faults{refuse: func(r *http.Request) int { back(r); return 0 }})
			}
			out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--without-lease")
			equal(t, "put back", s.has(t, web) != addLeft, moment.recreated)
			equal(t, "released", places(out.Released), "")
		})
	}
}

// TestRace_TwoRunsAtOnce: an operator can run the command while a CronJob does.
func TestRace_TwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for name, flags := range map[string][]string{"under the Lease": nil, "without the Lease": {"--without-lease"}} {
		s.play(t, name, func(t *testing.T) {
			live := s.up(t, "worker-1", "live", blue)
			var leaks []string
			for _, name := range []string{"a", "b", "c", "d"} {
				leaks = append(leaks, stored(s.up(t, "worker-2", name, blue).leak(t))...)
			}
			before := s.contents(t)
			var judged sync.WaitGroup // both have, when each begins to act
			judged.Add(2)
			var both [2]*outcome
			var running errgroup.Group
			for i := range both {
				begins := once(func(r *http.Request) bool {
					return asks(http.MethodGet, "/ippools/")(r) || strings.HasSuffix(r.URL.Path, "/leases/whereabouts")
				}, func() { judged.Done(); judged.Wait() })
				through := s.onRequest(t, begins)
				running.Go(func() error {
					both[i] = s.productAs(t, through, slices.Concat([]string{"run", "--confirm-after", "0"}, flags)...)
					return nil
				})
			}
			check(t, running.Wait())
			s.checkReleased(t, before, leaks...)
			s.has(t, live)
			entries := 0
			for _, out := range both {
				out.exits(t, 0)
				for _, i := range out.Released {
					if i.Reservation == "" {
						entries++
					}
				}
			}
			equal(t, "entries released by both", entries, 4)
		})
	}
}

// TestRace_PodsDuringARun starts a pod after each answer that a run gets, up to
// twelve. The plugin waits for the Lease, so none starts while the run holds it.
func TestRace_PodsDuringARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	s.up(t, "worker-1", "leaked", blue).leak(t)
	var came []*pod
	var mu sync.Mutex // reads come several at once
	l, kubeconfig := s.link(t)
	l.suffers(faults{answered: func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet && len(came) < 12 && !strings.Contains(r.URL.Path, "lease") {
			came = append(came, s.up(t, "worker-2", fmt.Sprintf("new-%d", len(came)), blue))
		}
	}})
	out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0")
	equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
	all := s.contents(t)
	for _, p := range came {
		for _, place := range stored(p) {
			if all[place] == "" {
				t.Errorf("%s of %s, which came meanwhile, was released", place, p.Name)
			}
		}
	}
	if len(came) == 0 {
		t.Error("no pod came meanwhile")
	}
}
