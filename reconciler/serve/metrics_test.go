package serve

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// valueOf is the value of a metric without labels.
func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetGauge().GetValue() + out.GetCounter().GetValue()
}

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
		recorder.ScheduleChanged(schedule.Status{Expression: "30 4 * * *", Next: next})
		out := passOver(t, reconciler.NewHistory())
		for day := range 3 {
			time.Sleep(time.Until(next) + time.Minute) // a pass takes a minute
			if d := overdue(); d < 0 || d > time.Hour {
				t.Errorf("day %d: before it ended the pass was overdue by %s", day, d)
			}
			recorder.fullPassEnded(out, time.Minute, nil)
			next = next.Add(24 * time.Hour)
			if d := overdue(); d != -time.Until(next) {
				t.Errorf("day %d: after a pass the next is overdue by %s, want %s", day, d, -time.Until(next))
			}
		}
		time.Sleep(time.Until(next) + 2*time.Hour)
		recorder.fullPassEnded(nil, time.Minute, errors.New("the API server is away"))
		if d := overdue(); d < 2*time.Hour {
			t.Errorf("passes fail, and the next is overdue by %s", d)
		}
		recorder.ScheduleChanged(schedule.Status{Expression: "@every 5m", Next: time.Now().Add(5 * time.Minute)})
		time.Sleep(6 * time.Minute)
		recorder.fullPassEnded(out, time.Minute, nil)
		if d := overdue(); d != -5*time.Minute {
			t.Errorf("by the new schedule it is overdue by %s", d)
		}
	})
}

// increase() of a counter that is not there before its first event is 0.
func TestRefusalsAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ip_reconcile_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == string(reconciler.Breaker) && m.GetCounter().GetValue() == 0 {
				return
			}
		}
	}
	t.Error("there is no refused_total of the breaker")
}
