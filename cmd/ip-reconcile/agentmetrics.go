package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// serveAgentMetrics serves the node agent's metrics by HTTPS, to accounts that may get /metrics. It would make the
// program ip-reconcile-agent twice as large, and is not part of that.
func serveAgentMetrics(
	ctx context.Context, config *rest.Config, address, certDir string, of prometheus.Collector, log *slog.Logger,
) error {
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	if err := metrics.Registry.Register(of); err != nil {
		return err
	}
	s, err := server.NewServer(server.Options{
		BindAddress: address, SecureServing: true, CertDir: certDir,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}, config, client)
	if err != nil {
		return err
	}
	return s.Start(ctx)
}
