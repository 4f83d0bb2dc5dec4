package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// IPReconcilePassOverdue fires for a pass that was due more than an hour ago.
func TestMetrics_NextPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		recorder := newRecorder(&log)
		overdue := func() time.Duration {
			return time.Since(time.Unix(int64(valueOf(t, recorder.Metrics.nextPass)), 0))
		}
		next, err := schedule.Next("30 4 * * *", time.Now())
		check(t, err)
		recorder.ScheduleChanged(schedule.Status{Expression: "30 4 * * *"})
		out := passOver(t, &reconciler.Process{})
		for day := range 3 {
			time.Sleep(time.Until(next) + time.Minute) // the duration of the pass
			if d := overdue(); d < 0 || d > time.Hour {
				t.Errorf("day %d: overdue by %s at the end of the pass", day, d)
			}
			next = next.Add(24 * time.Hour)
			recorder.fullPassEnded(out, time.Minute, nil, "30 4 * * *")
			restoretest.Equal(t, fmt.Sprintf("day %d: overdue after the pass", day), overdue(), -time.Until(next))
		}
		time.Sleep(time.Until(next) + 2*time.Hour)
		recorder.fullPassEnded(nil, time.Minute, errors.New("unreachable"), "30 4 * * *")
		if d := overdue(); d < 2*time.Hour {
			t.Errorf("overdue by %s after a failed pass", d)
		}
	})
}

// IPReconcileNotObserving fires for an observation that is older than 15 minutes.
func TestMetrics_LastObservation(t *testing.T) {
	for _, noCaches := range []bool{false, true} {
		c := newCluster()
		c.noCaches = noCaches
		serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
			age := func() time.Duration {
				return time.Since(time.Unix(int64(gaugeOf(t, s.Recorder.Metrics, "last_observation_timestamp_seconds")), 0))
			}
			for range 24 * 60 {
				c.sleep(time.Minute)
				if a := age(); a > 6*time.Minute {
					t.Fatalf("without caches %v: last observation %s ago", noCaches, a)
				}
			}
			refused := errors.New("pods is forbidden")
			c.down, c.unverified = refused, refused
			c.sleep(20 * time.Minute)
			if a := age(); a < 15*time.Minute {
				t.Errorf("without caches %v: last observation %s ago, although passes fail", noCaches, a)
			}
			c.down, c.unverified = nil, nil
			c.sleep(time.Minute)
			if a := age(); a > time.Minute {
				t.Errorf("without caches %v: last observation %s ago, although passes succeed", noCaches, a)
			}
		})
	}
}

func TestMetrics_Breaker(t *testing.T) {
	j := resultOf(Pod("bystander"), Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/x", "b1", "net1"))).Assessment
	refused := func(why plan.Refusal) *reconciler.Result {
		x := plan.Refused{Item: j.Allocations[0], Gate: plan.Gate{Why: why}}
		return &reconciler.Result{Assessment: j, Refused: []plan.Refused{x}}
	}
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	for _, c := range []struct {
		out             *reconciler.Result
		release, repair float64
	}{
		{refused(plan.Breaker), 1, 0},
		{&reconciler.Result{Assessment: j, Unrepaired: []plan.Unrepaired{{Why: plan.Breaker}}}, 0, 1},
		{refused(plan.LeaseBusy), 0, 0},
	} {
		update(m, c.out)
		found := series(t, registry, "breaker")
		if found["release"] != c.release || found["repair"] != c.repair || len(found) != 2 {
			t.Errorf("breaker %v, want %v and %v", found, c.release, c.repair)
		}
	}
}

// increase() ignores the first event of a counter that did not exist before it.
func TestMetrics_StartAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	for metric, label := range map[string]string{"refused_total": "Breaker", "not_repaired_total": "Breaker",
		"fences_total": string(restore.Settled), "denied_writes_total": ""} {
		if n, ok := series(t, registry, metric)[label]; !ok || n != 0 {
			t.Errorf("%s of %q is %v, exists: %v", metric, label, n, ok)
		}
	}
	m.WriteDenied()
	restoretest.Equal(t, "denied", series(t, registry, "denied_writes_total")[""], 1.0)
}
