package serve

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func TestWhatTheBreakerForRepairWithholdsIsLoggedOnceAndCountedEach(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	out := passOver(t, reconciler.NewHistory())
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		f := judge.Finding{Kind: judge.Unrecorded, IP: ip, Pool: "kube-system/p"}
		out.Unrepaired = append(out.Unrepaired, reconciler.Unrepaired{Finding: f, Why: reconciler.Breaker, Detail: "worker-1 says too much"})
	}
	count := func() float64 {
		var m dto.Metric
		if err := recorder.Metrics.unrepaired.WithLabelValues(string(reconciler.Breaker)).Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	for range 3 {
		recorder.record(out)
	}
	if n := strings.Count(log.String(), "mass repair refused"); n != 1 || !strings.Contains(log.String(), "findings=3") || count() != 3 {
		t.Errorf("counted %v, told %d times: %s", count(), n, log.String())
	}
	refused := out.Unrepaired
	out.Unrepaired = nil
	recorder.record(out)
	out.Unrepaired = refused
	recorder.record(out)
	if n := strings.Count(log.String(), "mass repair refused"); n != 2 || count() != 6 {
		t.Errorf("after it had passed: counted %v, told %d times", count(), n)
	}
}
