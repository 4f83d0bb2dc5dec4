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
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// serve starts to serve metrics and probes on the configured addresses, and returns the Health that feeds them.
func (o *options) serve(ctx context.Context, config *rest.Config, log *slog.Logger) (*agent.Health, error) {
	registry := prometheus.NewRegistry()
	isSet := func(address string) bool { return address != "" && address != "0" }
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(), version.Get().Collector())
	health := agent.NewHealth(log, registry)
	if isSet(o.metrics) {
		listener, err := net.Listen("tcp", o.metrics)
		if err != nil {
			return nil, fmt.Errorf("--metrics-bind-address %s: %w", o.metrics, err)
		}
		mux := http.NewServeMux()
		mux.Handle("GET /healthz", healthz.CheckHandler{Checker: health.Alive})
		mux.Handle("GET /readyz", healthz.CheckHandler{Checker: health.Ready})
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		go func() {
			err := (&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}).Serve(listener)
			log.Error("Cannot serve metrics and probes", "error", err)
		}()
	}
	if isSet(o.secureMetrics) {
		go func() {
			if err := o.serveSecure(ctx, config, o.secureMetrics, o.certDir, registry, log); err != nil {
				log.Error("Cannot serve metrics by HTTPS", "address", o.secureMetrics, "error", err)
			}
		}()
	}
	return health, nil
}
