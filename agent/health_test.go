package agent_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// docs/operate/metrics.md states how many series each agent has. Histograms would count as one here.
func TestHealth_Cardinality(t *testing.T) {
	registry := prometheus.NewRegistry()
	agent.NewHealth(slog.New(slog.DiscardHandler), registry)
	registry.MustRegister(version.Get().Collector(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	own, runtime := 2, 0 // inspections_total has both results after the first of each
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "ip_reconcile_") {
			own += len(f.GetMetric())
		} else {
			runtime += len(f.GetMetric())
		}
	}
	page, err := os.ReadFile("../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if own != 7 || runtime < 35 || runtime > 55 || !strings.Contains(string(page), "has 7 series of its own") {
		t.Errorf("an agent has %d series of its own and %d of the runtime, and the page states another number", own, runtime)
	}
}
