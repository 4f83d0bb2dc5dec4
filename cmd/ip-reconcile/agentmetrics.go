package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/agentcmd"
)

// agentMetrics serves the node agent's metrics by HTTPS, to who may get /metrics. It is
// not in ip-reconcile-agent, which it would make twice as large.
func agentMetrics() *agentcmd.SecureMetrics {
	return &agentcmd.SecureMetrics{
		Registry: metrics.Registry,
		Serve: func(ctx context.Context, config *rest.Config, address, certDir string, log *slog.Logger) error {
			ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				return fmt.Errorf("set up a client for %s: %w", config.Host, err)
			}
			s, err := server.NewServer(server.Options{
				BindAddress: address, SecureServing: true, CertDir: certDir, FilterProvider: filters.WithAuthenticationAndAuthorization,
			}, config, client)
			if err != nil {
				return err
			}
			return s.Start(ctx)
		},
	}
}
