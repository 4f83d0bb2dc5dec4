// Package agentcmd has the command of the node agent. It is part of ip-reconcile, and is the whole
// ip-reconcile-agent, a program of half the size for the DaemonSet.
package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// options are the flags of the node agent.
type options struct {
	flags.Common
	node          flags.Node
	podUID        string
	outsidePod    bool
	withoutPolicy bool
	metrics       string

	serveSecure            SecureMetrics
	secureMetrics, certDir string
}

// SecureMetrics serves the agent's metrics by HTTPS until the context ends. The certificate is tls.crt and tls.key
// in certDir, or a new one if certDir is "". It is a parameter because ip-reconcile-agent must not contain its
// dependencies.
type SecureMetrics = func(
	ctx context.Context, config *rest.Config, address, certDir string, metrics prometheus.Collector, log *slog.Logger,
) error

// New returns the command, which logs to logs. Without secure it cannot serve metrics by HTTPS.
func New(logs io.Writer, secure SecureMetrics) *cobra.Command {
	o := &options{serveSecure: secure}
	c := &cobra.Command{
		Use:   "agent",
		Short: "Report the sandboxes on this node (runs in the DaemonSet)",
		Long: `Inspect the container runtime and the CNI caches of this node. Publish the result
as the node's SandboxReport, with a Lease that confirms it. With the reports the
reconciler can distinguish leaks from phantom pods, pods that are stuck
terminating, and sandboxes that outlive their pod. The agent releases nothing.

The agent inspects every 10 seconds, and after each event of the runtime.
containerd before 2.0 sends each event to one reader, which is kubelet. After a
failed inspection the agent publishes nothing, and the last report expires.`,
		Example: `  ip-reconcile agent                                 # in the DaemonSet of deploy/agent
  ip-reconcile agent --node worker-1 --outside-pod   # on a node, as root
  ip-reconcile agent --cri /run/crio/crio.sock`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	withoutPolicy, envErr := withoutPolicyFromEnv()
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !f.Changed("without-admission-policy") && envErr != nil {
			return envErr
		}
		if err := o.check(f); err != nil {
			return err
		}
		return o.run(c.Context(), logs)
	}
	o.Common.Add(f, "info")
	o.node.Add(f, "socket of the container runtime (default: that of containerd, CRI-O, k3s or RKE2)")
	f.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"),
		"UID of the agent's own pod, which the runtime must list at each inspection (default: $POD_UID)")
	f.BoolVar(&o.outsidePod, "outside-pod", false, "the agent does not run in a pod")
	f.BoolVar(&o.withoutPolicy, "without-admission-policy", withoutPolicy,
		"publish even if an agent may write the reports of other nodes (default: $WITHOUT_ADMISSION_POLICY)")
	f.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:9746",
		"address of /metrics, /healthz and /readyz; 0 serves none")
	if secure != nil {
		f.StringVar(&o.secureMetrics, "secure-metrics-bind-address", "0",
			"address of /metrics by HTTPS, for accounts that may get the nonResourceURL /metrics; 0 serves none")
		f.StringVar(&o.certDir, "metrics-cert-dir", "",
			"folder with tls.crt and tls.key for --secure-metrics-bind-address (default: a new certificate)")
	}
	return c
}

// policyVariable is the environment variable with the default of --without-admission-policy.
const policyVariable = "WITHOUT_ADMISSION_POLICY"

// withoutPolicyFromEnv returns the default of --without-admission-policy.
func withoutPolicyFromEnv() (bool, error) {
	text := os.Getenv(policyVariable)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("the environment variable %s is %q: must be true or false", policyVariable, text)
	}
	return value, nil
}

// check returns an error for flags that cannot be meant.
func (o *options) check(f *pflag.FlagSet) error {
	if o.LeaseNamespace() == corev1.NamespaceNodeLease {
		return fmt.Errorf("--lease-namespace %s: kubelets keep the Leases of their nodes there, under the same names; "+
			"name a namespace that has only the agents' Leases", corev1.NamespaceNodeLease)
	}
	return flags.RefuseWithout(f, "secure-metrics-bind-address", "", "metrics-cert-dir")
}

func (o *options) run(ctx context.Context, logs io.Writer) error {
	log, err := o.Logger(logs)
	if err != nil {
		return err
	}
	switch {
	case o.outsidePod:
		o.podUID = ""
	case o.podUID == "":
		return errors.New("set --pod-uid to the UID of the agent's own pod (POD_UID from metadata.uid), " +
			"or --outside-pod if it does not run in a pod")
	}
	inspector, bootID, err := o.node.NodeInspector(o.podUID)
	if err != nil {
		return err
	}
	defer inspector.Runtime.Close()
	config, err := o.Config("agent", 10, 20)
	if err != nil {
		return err
	}
	store, err := agent.NewAPIStore(config, o.node.Name, o.LeaseNamespace())
	if err != nil {
		return err
	}
	events, changes, reconnected := make(chan struct{}, 1), make(chan string, 16), make(chan struct{}, 1)
	watcher, err := agent.NewWatcher(config, o.node.Name, func() { wake(reconnected) })
	if err != nil {
		return err
	}
	health, err := o.serve(ctx, config, log)
	if err != nil {
		return err
	}
	confirmer := &agent.Confirmer{Node: o.node.Name, BootID: bootID, Get: store.NodeIdentity}
	log.Info("Starting the node agent", "node", o.node.Name, "leaseNamespace", o.LeaseNamespace())
	a := &agent.Agent{
		Node: o.node.Name, Inspector: inspector, Store: store, Health: health, Identity: confirmer.Identity,
		RuntimeEvents: events, ReportChanges: changes, Reconnected: reconnected,
	}
	if !o.withoutPolicy && !o.outsidePod { // outside a pod the account is not the agents'
		a.CheckPolicy = store.CheckPolicy
	}
	go follow(ctx, log.With("stream", "runtime events"), func() error {
		return inspector.Runtime.Watch(ctx, func() { wake(events) })
	})
	go follow(ctx, log.With("stream", "report"), func() error {
		return watcher.Watch(ctx, func(version string) {
			select {
			case changes <- version:
			case <-ctx.Done():
			}
		})
	})
	a.Run(ctx)
	return nil
}

// wake sends to a channel of capacity 1 unless it is full.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// follow reopens a stream until the context ends, with growing pauses if it ends at once.
func follow(ctx context.Context, log *slog.Logger, stream func() error) {
	pauses := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}
	_ = pauses.DelayWithReset(clock.RealClock{}, time.Minute).Until(ctx, true, true, func(context.Context) (bool, error) {
		log.Debug("A stream ended", "error", stream())
		return false, nil
	})
}

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
