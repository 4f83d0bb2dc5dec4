package serve

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// The shipped alert is about a pass that was due more than an hour ago.
func TestAPassIsOverdueOnlyWhenNoneHasSucceededSinceItWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		recorder := newRecorder(&log)
		overdue := func() time.Duration {
			return time.Since(time.Unix(int64(valueOf(t, recorder.Metrics.nextPass)), 0))
		}
		next, err := schedule.Next("30 4 * * *", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		recorder.ScheduleChanged(schedule.Status{Expression: "30 4 * * *"})
		out := passOver(t, reconciler.NewHistory())
		for day := range 3 {
			time.Sleep(time.Until(next) + time.Minute) // a pass takes a minute
			if d := overdue(); d < 0 || d > time.Hour {
				t.Errorf("day %d: before it ended the pass was overdue by %s", day, d)
			}
			next = next.Add(24 * time.Hour)
			recorder.fullPassEnded(out, time.Minute, nil, "30 4 * * *")
			if d := overdue(); d != -time.Until(next) {
				t.Errorf("day %d: after a pass the next is overdue by %s, want %s", day, d, -time.Until(next))
			}
		}
		time.Sleep(time.Until(next) + 2*time.Hour)
		recorder.fullPassEnded(nil, time.Minute, errors.New("the API server is away"), "30 4 * * *")
		if d := overdue(); d < 2*time.Hour {
			t.Errorf("passes fail, and the next is overdue by %s", d)
		}
	})
}

// The alert IPReconcileNotObserving is about an observation that is older than 15 minutes.
func TestAnObservationIsNeverOldUnlessThePassesFail(t *testing.T) {
	for _, noCaches := range []bool{false, true} {
		c := newCluster()
		c.noCaches = noCaches
		serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
			age := func() time.Duration {
				return time.Since(time.Unix(int64(gaugeOf(t, s.Recorder.Metrics, "last_observation_timestamp_seconds")), 0))
			}
			for range 24 * 60 {
				c.sleep(time.Minute)
				if a := age(); a > 6*time.Minute {
					t.Fatalf("without caches %v: nothing has been observed for %s", noCaches, a)
				}
			}
			refused := errors.New("pods is forbidden")
			c.down, c.unverified = refused, refused
			c.sleep(20 * time.Minute)
			if a := age(); a < 15*time.Minute {
				t.Errorf("without caches %v: all passes fail, and the last observation is of %s ago", noCaches, a)
			}
			c.down, c.unverified = nil, nil
			c.sleep(time.Minute)
			if a := age(); a > time.Minute {
				t.Errorf("without caches %v: passes succeed again, and the last observation is of %s ago", noCaches, a)
			}
		})
	}
}

// The alert is to stay for as long as the breaker refuses, and no longer.
func TestTheBreakersStateIsAGauge(t *testing.T) {
	j := judgetest.Judged(judgetest.Observe(judgetest.Pod("bystander"),
		judgetest.Pool("10.0.0.0-29", "10.0.0.0/29", judgetest.Alloc("1", "default/x", "b1", "net1"))), judge.Policy{})
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	for _, c := range []struct {
		out             *reconciler.Result
		release, repair float64
	}{
		{&reconciler.Result{Judgement: j, Refused: []reconciler.Refused{{Item: j.Allocations[0], Gate: reconciler.Gate{Why: reconciler.Breaker}}}}, 1, 0},
		{&reconciler.Result{Judgement: j, Unrepaired: []reconciler.Unrepaired{{Why: reconciler.Breaker}}}, 0, 1},
		{&reconciler.Result{Judgement: j, Refused: []reconciler.Refused{{Item: j.Allocations[0], Gate: reconciler.Gate{Why: reconciler.LeaseBusy}}}}, 0, 0},
	} {
		m.update(c.out, nil)
		found := series(t, registry, "breaker")
		if found["release"] != c.release || found["repair"] != c.repair || len(found) != 2 {
			t.Errorf("breaker %v, want %v and %v", found, c.release, c.repair)
		}
	}
}

// increase() of a counter that is not there before its first event is 0.
func TestMetrics_CountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	for metric, label := range map[string]string{"refused_total": "Breaker", "not_repaired_total": "Breaker", "fences_total": outcomeSettled, "denied_writes_total": ""} {
		if n, there := series(t, registry, metric)[label]; !there || n != 0 {
			t.Errorf("%s of %q is %v, there %v", metric, label, n, there)
		}
	}
	m.WriteDenied()
	if n := series(t, registry, "denied_writes_total")[""]; n != 1 {
		t.Errorf("%v denied", n)
	}
}
