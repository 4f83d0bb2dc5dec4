//go:build !slow && !cluster

package e2e

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// TestNothingIsLeftHalfDone: the API server fails between the two writes of a
// release, the reservation's delete and the pool's patch.
func TestNothingIsLeftHalfDone(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")

	s.play(t, "where it fails for good: the reservation is put back", func(t *testing.T) {
		s.up(t, "worker-1", "web", blue).leak(t)
		entry, reservation, uid := s.blueEntry(t)
		m := &faultInjector{onPatch: func(int, *ippool.Pool, func() error) error { return errors.New("etcdserver: no leader") }}
		out := s.reconcile(t, m, withoutLease)
		entryNow, reservationNow, uidNow := s.blueEntry(t)
		equal(t, "the entry", entryNow, entry)
		equal(t, "the reservation", reservationNow, reservation)
		if uidNow == uid {
			t.Error("the reservation was never deleted: this shows nothing")
		}
		equal(t, "released", released(out), map[string]int{})
		equal(t, "refused", out.Left(), 1)
		equal(t, "why", out.Refused[0].Why, reconciler.WriteFailed)
		s.run(t).exits(t, 0) // and the next run finds all that it needs
		equal(t, "stored", s.contents(t), contents{})
	})
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

// TestABusyPoolDoesNotStopTheOthers is B2: each write to one pool meets a change.
func TestABusyPoolDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue, green := simple("blue", "10.1.0.0/24"), simple("green", "10.2.0.0/24")
	for name, settings := range map[string]kube.Settings{"under the Lease": {}, "without the Lease": withoutLease} {
		s.play(t, name, func(t *testing.T) {
			s.up(t, "worker-1", "web", blue, green).leak(t)
			stored := s.contents(t)
			m := &faultInjector{onPatch: func(n int, p *ippool.Pool, do func() error) error {
				if p.Name == "10.1.0.0-24" {
					s.patch(t, harness.IPPools, p.Name, `{"metadata":{"annotations":{"n":"`+time.Now().String()+`"}}}`)
				}
				return do()
			}}
			out := s.reconcile(t, m, settings)
			equal(t, "released", released(out), map[string]int{"10.2.0.0-24 1": 1, "reservation 10.2.0.1": 1})
			after := s.contents(t)
			equal(t, "the busy pool's entry", after["10.1.0.0-24 1"], stored["10.1.0.0-24 1"])
			if after["reservation 10.1.0.1"] == "" {
				t.Error("the reservation of what was not freed was not put back")
			}
			equal(t, "refused", out.Left(), 1)
			if out.Left() == 1 {
				why := out.Refused[0].Why
				if slow := why == reconciler.WriteFailed && name == "under the Lease"; why != reconciler.Changed && !slow { // a hold may be spent
					t.Errorf("it was refused as %s", why)
				}
			}
			t.Logf("gave up after %d patches", m.counts["patch"])
		})
	}
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
