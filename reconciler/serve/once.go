package serve

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Once tells the log of a pass that stands alone, in the words of the
// long-running form. Nobody would collect its metrics, and whereabouts' own
// one-shot form (v0.5) writes no events. A pass that has both a result and an
// error looked, and left things.
func Once(log *slog.Logger, pass func() (*reconciler.Result, error)) {
	t := &Recorder{Log: log, Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}}}
	t.fullPassStarted()
	began := time.Now()
	out, err := pass()
	t.fullPassEnded(out, time.Since(began), err)
}
