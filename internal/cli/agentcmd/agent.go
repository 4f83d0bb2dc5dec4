// Package agentcmd is the command of the node agent. It is part of ip-reconcile, and alone in ip-reconcile-agent, which is
// half its size: there is an agent on every node.
package agentcmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
)

// options are the flags of the node agent.
type options struct {
	flags.Common
	node       flags.Node
	podUID     string
	outsidePod bool
	noPolicy   bool
	metrics    string

	serveSecure            SecureMetrics
	secureMetrics, certDir string
}

// SecureMetrics serves the agent's metrics by HTTPS until the context ends, with tls.crt and tls.key of a folder, or with a
// certificate that it makes where certDir is "". It comes from outside since it brings much code with it, which the program
// for the DaemonSet has no room for.
type SecureMetrics = func(ctx context.Context, config *rest.Config, address, certDir string, metrics prometheus.Collector, log *slog.Logger) error

// New is the command; it logs to the given file. Where secure is nil it cannot serve
// metrics by HTTPS.
func New(logs io.Writer, secure SecureMetrics) *cobra.Command {
	o := &options{serveSecure: secure}
	c := &cobra.Command{
		Use:   "agent",
		Short: "Publish what this node's container runtime really runs: the DaemonSet",
		Long: `Inspect this node's container runtime and CNI caches, and publish what they hold
as the node's SandboxReport, with a Lease that confirms it. The reconciler
reads the reports to tell phantom pods, stuck-terminating pods and sandboxes that
were kept after their end from leaks. The agent itself frees nothing.

It inspects them every 10 seconds, and at once when the runtime sends an event
(containerd before 2.0 gives each event to one reader only: there kubelet keeps them). When an inspection fails,
nothing is published: the last report stands and goes stale.`,
		Example: `  ip-reconcile agent                                 # in the DaemonSet of deploy/agent
  ip-reconcile agent --node worker-1 --outside-pod   # on a node, as root
  ip-reconcile agent --cri /run/crio/crio.sock`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), logs) },
	}
	f := c.Flags()
	o.Common.Add(f, "info")
	o.node.Add(f, "socket of the container runtime (default: the usual one of containerd, CRI-O, k3s or RKE2 that is there)")
	f.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"), "UID of the agent's own pod, whose sandbox must be in every list of the runtime (default: $POD_UID)")
	f.BoolVar(&o.outsidePod, "outside-pod", false, "the agent does not run in a pod, so that no sandbox is its own")
	f.BoolVar(&o.noPolicy, "without-admission-policy", os.Getenv("WITHOUT_ADMISSION_POLICY") == "true",
		"publish although every agent may write the report of every node (default: $WITHOUT_ADMISSION_POLICY)")
	f.StringVar(&o.metrics, "metrics-bind-address", "127.0.0.1:9746", "where /metrics, /healthz and /readyz are served; 0 for nowhere")
	if secure != nil {
		f.StringVar(&o.secureMetrics, "secure-metrics-bind-address", "0", "where /metrics is served by HTTPS, to who may get them (nonResourceURLs /metrics); 0 for nowhere")
		f.StringVar(&o.certDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for --secure-metrics-bind-address (default: a certificate made at start)")
	}
	o.Completions(c)
	return c
}

// run runs the agent until the context ends.
func (o *options) run(ctx context.Context, logs io.Writer) error {
	log, err := o.Logger(logs)
	if err != nil {
		return err
	}
	switch {
	case o.outsidePod:
		o.podUID = ""
	case o.podUID == "":
		return errors.New("--pod-uid must be the UID of the agent's own pod (POD_UID from metadata.uid), or --outside-pod say that it runs in none")
	}
	inspector, runtime, err := o.node.NodeInspector(o.podUID)
	if err != nil {
		return err
	}
	defer runtime.Close()
	bootID, err := o.node.BootID()
	if err != nil {
		return err
	}
	config, err := o.Config("agent", 10, 20)
	if err != nil {
		return err
	}
	store, err := agent.NewAPIStore(config, o.node.Name, o.LeaseNamespace())
	if err != nil {
		return err
	}
	reconnected := make(chan struct{}, 1)
	watcher, err := agent.NewWatcher(config, o.node.Name, func() { wake(reconnected) })
	if err != nil {
		return err
	}
	health, err := o.serve(ctx, config, log)
	if err != nil {
		return err
	}
	confirmer := &agent.Confirmer{Node: o.node.Name, BootID: bootID, Get: func(ctx context.Context) (agent.Identity, error) {
		return agent.NodeIdentity(ctx, config, o.node.Name)
	}}
	log.Info("the node agent starts", "node", o.node.Name, "leaseNamespace", o.LeaseNamespace())
	a := &agent.Agent{
		Node: o.node.Name, Inspector: inspector, Store: store, Health: health, Identity: confirmer.Identity,
		RuntimeEvents: runtimeEvents(ctx, log, runtime), ReportChanges: reportChanges(ctx, log, watcher), Reconnected: reconnected,
	}
	if !o.noPolicy && !o.outsidePod { // outside of a pod its account is not the one that the policy is for
		a.CheckPolicy = store.CheckPolicy
	}
	a.Run(ctx)
	return nil
}

// runtimeEvents follows the container runtime's events until the context ends.
func runtimeEvents(ctx context.Context, log *slog.Logger, runtime *cri.Runtime) <-chan struct{} {
	events := make(chan struct{}, 1)
	go follow(ctx, log, "the container runtime's events", func() error {
		return runtime.Watch(ctx, func() { wake(events) })
	})
	return events
}

// reportChanges follows the node's report until the context ends.
func reportChanges(ctx context.Context, log *slog.Logger, watcher *agent.Watcher) <-chan string {
	changes := make(chan string, 16)
	go follow(ctx, log, "the report", func() error {
		return watcher.Watch(ctx, func(version string) {
			select {
			case changes <- version:
			case <-ctx.Done():
			}
		})
	})
	return changes
}

// wake signals a channel of capacity 1, unless it is signalled already.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// follow keeps a stream open until the context ends, with growing pauses when it fails at once.
func follow(ctx context.Context, log *slog.Logger, what string, stream func() error) {
	pauses := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second}
	_ = pauses.DelayWithReset(clock.RealClock{}, time.Minute).Until(ctx, true, true, func(context.Context) (bool, error) {
		log.Debug("following "+what+" ended", "error", stream())
		return false, nil
	})
}
