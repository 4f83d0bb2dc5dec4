package agentcmd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// serve serves metrics and health, where that was asked for, and returns the Health that they are of.
func (o *options) serve(ctx context.Context, config *rest.Config, log *slog.Logger) (*agent.Health, error) {
	registry := prometheus.NewRegistry()
	isSet := func(address string) bool { return address != "" && address != "0" }
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), version.Get().Collector())
	health := agent.NewHealth(log, registry)
	if isSet(o.metrics) {
		listener, err := net.Listen("tcp", o.metrics)
		if err != nil {
			return nil, fmt.Errorf("--metrics-bind-address %s: %w", o.metrics, err)
		}
		go func() {
			err := (&http.Server{Handler: health.Handler(registry), ReadHeaderTimeout: 5 * time.Second}).Serve(listener)
			log.Error("metrics and health are not served any more", "error", err)
		}()
	}
	if isSet(o.secureMetrics) {
		go func() {
			if err := o.serveSecure(ctx, config, o.secureMetrics, o.certDir, registry, log); err != nil {
				log.Error("metrics are not served by HTTPS", "--secure-metrics-bind-address", o.secureMetrics, "error", err)
			}
		}()
	}
	return health, nil
}
