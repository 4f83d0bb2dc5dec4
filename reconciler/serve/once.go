package serve

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Once logs a pass that stands alone, as the long-running form does. Nobody would collect its metrics, and whereabouts' own
// one-shot form (v0.5) writes no events. A pass that has both a result and an
// error has observed, and left things undone.
func Once(log *slog.Logger, pass func() (*reconciler.Result, error)) {
	r := &Recorder{Log: log, Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}}}
	r.fullPassStarted()
	began := time.Now()
	out, err := pass()
	r.fullPassEnded(out, time.Since(began), err, "")
}
