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
	var registry Registry = prometheus.NewRegistry()
	secure := !nowhere(o.secureMetrics)
	if secure {
		registry = o.secure.Registry
	}
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), version.Get().Collector())
	health := agent.NewHealth(log, registry)
	if err := listen(o.metrics, health.Handler(registry), log); err != nil {
		return nil, err
	}
	if secure {
		go func() {
			if err := o.secure.Serve(ctx, config, o.secureMetrics, o.certDir, log); err != nil {
				log.Error("metrics are not served by HTTPS", "--secure-metrics-bind-address", o.secureMetrics, "error", err)
			}
		}()
	}
	return health, nil
}

// nowhere reports whether nothing is to be served at an address.
func nowhere(address string) bool { return address == "" || address == "0" }

// listen serves metrics and health in plain text.
func listen(address string, handler http.Handler, log *slog.Logger) error {
	if nowhere(address) {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--metrics-bind-address %s: %w", address, err)
	}
	go func() {
		err := (&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}).Serve(listener)
		log.Error("metrics and health are not served any more", "error", err)
	}()
	return nil
}
