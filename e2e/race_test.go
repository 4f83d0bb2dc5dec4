//go:build !slow && !cluster

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// before is an onDelete or onPatch that lets something happen before the first
// such call, which is then made.
func before[T any](happen func()) func(int, T, func() error) error {
	return func(n int, _ T, do func() error) error {
		if n == 1 {
			happen()
		}
		return do()
	}
}

// released are what a pass freed, as places.
func released(out *reconciler.Result) map[string]int {
	all := map[string]int{}
	for _, it := range out.Released {
		if it.Allocation != nil {
			all[withoutNamespace(it.Object())+" "+it.Key()]++
		} else {
			all["reservation "+withoutNamespace(it.Object())]++
		}
	}
	return all
}

// blueEntry is what is stored of a pod that has 10.1.0.1 on blue: the
// entry and the reservation, and the reservation's UID.
func (s *stage) blueEntry(t *testing.T) (entry, reservation, uid string) {
	t.Helper()
	c := s.contents(t)
	uid, reservation, _ = cutSpace(c["reservation 10.1.0.1"])
	return c["10.1.0.0-24 1"], reservation, uid
}

func cutSpace(text string) (head, tail string, ok bool) {
	for i := range text {
		if text[i] == ' ' {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// has checks that 10.1.0.1 on blue is a pod's, entry and reservation.
func (s *stage) has(t *testing.T, p *pod) (reservationUID string) {
	t.Helper()
	entry, reservation, uid := s.blueEntry(t)
	equal(t, "the entry", entry, fmt.Sprintf(`{"id":"%s","ifname":"net1","podref":"default/%s"}`, p.sandbox.ID, p.Name))
	equal(t, "the reservation", reservation, fmt.Sprintf(`{"ifname":"net1","podref":"default/%s"}`, p.Name))
	return uid
}

// TestAPodThatComesBackKeepsItsAddress has web leak 10.1.0.1 and come back at
// every moment of its release: ADD finds the entry by name, takes it over, and
// keeps the reservation if there is one.
func TestAPodThatComesBackKeepsItsAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")
	var web *pod
	var addLeft string // the reservation, by its UID, when ADD returned
	back := func(t *testing.T) func() {
		return func() {
			web = s.pending(t, "worker-2", "web", blue)
			addLeft = s.has(t, web)
		}
	}
	for _, moment := range []struct {
		name          string
		faultInjector func(t *testing.T) *faultInjector
		recreated     bool // the reservation in the end is not the one that ADD kept or made
	}{
		{"between the first judgement and the Lease", func(t *testing.T) *faultInjector {
			return &faultInjector{onHold: func(n int) { back(t)() }}
		}, false},
		{"between the fresh read and the first write", func(t *testing.T) *faultInjector {
			return &faultInjector{onFresh: func(n int) {
				if n == 1 {
					back(t)()
				}
			}}
		}, true},
		{"just before its reservation is deleted", func(t *testing.T) *faultInjector {
			return &faultInjector{onDelete: before[*ippool.Reservation](back(t))}
		}, true},
		{"just after its reservation was deleted, so that ADD makes its own", func(t *testing.T) *faultInjector {
			return &faultInjector{onPatch: before[*ippool.Pool](back(t))}
		}, false},
	} {
		s.play(t, moment.name, func(t *testing.T) {
			s.up(t, "worker-1", "web", blue).leak(t)
			out := s.reconcile(t, moment.faultInjector(t), withoutLease)
			equal(t, "put back", s.has(t, web) != addLeft, moment.recreated)
			equal(t, "released", released(out), map[string]int{})
		})
	}

}

// TestALostAnswerIsFoundOut: the patch was applied, and its answer got lost.
func TestALostAnswerIsFoundOut(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")
	// lose lets the first patch be applied, then something happen, and then fails.
	lose := func(t *testing.T, then func()) *faultInjector {
		return &faultInjector{onPatch: func(n int, _ *ippool.Pool, do func() error) error {
			if n > 1 {
				return do()
			}
			check(t, do())
			then()
			return errors.New("connection reset by peer")
		}}
	}
	s.play(t, "and counts as released", func(t *testing.T) {
		s.up(t, "worker-1", "web", blue).leak(t)
		before := s.contents(t)
		m := lose(t, func() {})
		out := s.reconcile(t, m, withoutLease)
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
		equal(t, "released", released(out), map[string]int{"10.1.0.0-24 1": 1, "reservation 10.1.0.1": 1})
		equal(t, "refused", out.Left(), 0)
		equal(t, "reservations put back", m.counts["create"], 0)
	})
	s.play(t, "and the pod that has come back since keeps what ADD gave it", func(t *testing.T) {
		s.up(t, "worker-1", "web", blue).leak(t)
		var web *pod
		s.reconcile(t, lose(t, func() { web = s.pending(t, "worker-2", "web", blue) }), withoutLease)
		s.has(t, web)
	})
}

// TestWhatChangesInBetweenIsJudgedAgain: a pool's resourceVersion has moved on,
// or what was to be freed is not there any more.
func TestWhatChangesInBetweenIsJudgedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")

	s.play(t, "and freed at the next try where it is another entry that was added", func(t *testing.T) {
		s.up(t, "worker-1", "web", blue).leak(t)
		stored := s.contents(t)
		var other *pod
		m := &faultInjector{onPatch: before[*ippool.Pool](func() { other = s.pending(t, "worker-2", "other", blue) })}
		out := s.reconcile(t, m, withoutLease)
		equal(t, "patches", m.counts["patch"], 2)
		equal(t, "released", released(out), map[string]int{"10.1.0.0-24 1": 1, "reservation 10.1.0.1": 1})
		after := s.contents(t)
		equal(t, "stored", len(after), 2)
		if after["reservation "+other.ips[0]] == "" || after["10.1.0.0-24 1"] == stored["10.1.0.0-24 1"] {
			t.Errorf("stored is %v", after)
		}
	})
}

// TestAReleaseIsFinishedWhenTheAPIServerIsBack: the API server restarts between the two writes of a
// release, the reservation's delete and the pool's patch.
func TestAReleaseIsFinishedWhenTheAPIServerIsBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")

	s.play(t, "where it comes back: the release is finished", func(t *testing.T) {
		s.up(t, "worker-1", "web", blue).leak(t)
		m := &faultInjector{onPatch: func(n int, _ *ippool.Pool, do func() error) error {
			if n > 1 {
				return do()
			}
			s.StopAPI()
			return errors.Join(do(), s.StartAPI(t.Context()))
		}}
		// With the real pauses: they are what a restart fits in.
		out := s.reconcile(t, m, kube.Settings{Jitter: func(d time.Duration) time.Duration { return d }})
		equal(t, "released", released(out), map[string]int{"10.1.0.0-24 1": 1, "reservation 10.1.0.1": 1})
		equal(t, "stored", s.contents(t), contents{})
	})
}

// TestTwoRunsAtOnceFreeEverythingOnce: nothing keeps an operator from running
// the command while a CronJob does.
func TestTwoRunsAtOnceFreeEverythingOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")
	for name, settings := range map[string]kube.Settings{"under the Lease": {}, "without the Lease": withoutLease} {
		s.play(t, name, func(t *testing.T) {
			live := s.up(t, "worker-1", "live", blue)
			for _, name := range []string{"a", "b", "c", "d"} {
				s.up(t, "worker-2", name, blue).leak(t)
			}
			stored := s.contents(t)
			var wg sync.WaitGroup
			var both [2]*reconciler.Result
			ready := make(chan struct{})
			for i := range both {
				r := s.reconciler(t, &faultInjector{onHold: func(n int) { // when both have judged
					if n == 1 {
						ready <- struct{}{}
					}
				}}, settings)
				wg.Go(func() { both[i], _ = r.Run(t.Context()) })
			}
			<-ready
			<-ready
			wg.Wait()
			s.lost(t, stored, "10.1.0.0-24 2", "10.1.0.0-24 3", "10.1.0.0-24 4", "10.1.0.0-24 5",
				"reservation 10.1.0.2", "reservation 10.1.0.3", "reservation 10.1.0.4", "reservation 10.1.0.5")
			s.has(t, live)
			count := 0
			for _, out := range both {
				if out == nil {
					t.Fatal("a run failed")
				}
				equal(t, "refused", out.Left(), 0)
				for _, it := range out.Released {
					if it.Allocation != nil {
						count++
					}
				}
			}
			equal(t, "entries released by both", count, 4)
		})
	}
}

// TestPodsThatComeWhileARunReadsAndWritesKeepTheirAddresses has a pod come after each answer that a run gets, until
// there are twelve. The plugin waits for the Lease, so none comes while the run holds it.
func TestPodsThatComeWhileARunReadsAndWritesKeepTheirAddresses(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	s.up(t, "worker-1", "leaked", blue).leak(t)
	var came []*pod
	var mu sync.Mutex // reads come several at once
	p := &proxy{after: func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet && len(came) < 12 && !strings.Contains(r.URL.Path, "lease") {
			came = append(came, s.up(t, "worker-2", fmt.Sprintf("new-%d", len(came)), blue))
		}
	}}
	out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
	equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
	all := s.contents(t)
	for _, p := range came {
		for _, place := range stored(p) {
			if all[place] == "" {
				t.Errorf("%s of %s, which came meanwhile, was freed", place, p.Name)
			}
		}
	}
	if len(came) == 0 {
		t.Error("no pod came meanwhile")
	}
}
