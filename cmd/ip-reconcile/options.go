package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// options are the flags that run, check and explain share.
type options struct {
	kubeconfig, context, namespace string
	qps                            float32
	burst                          int
	timeout                        time.Duration
	snapshot, now                  string
	output                         string
	all                            bool
	agents, agentNodes             string
	unreachable                    time.Duration
	logLevel, logFormat            string
	withoutLease                   bool
}

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig file (default: KUBECONFIG, then ~/.kube/config, then the pod's own account)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
	f.StringVar(&o.namespace, "namespace", "", "the reconciler's own namespace, where the node agents' Leases are (default: the pod's, else kube-system)")
	f.Float32Var(&o.qps, "kube-api-qps", 200, "requests per second to the API server")
	f.IntVar(&o.burst, "kube-api-burst", 400, "requests that may be made at once")
	f.DurationVar(&o.timeout, "request-timeout", 30*time.Second, "limit of one request; there is none over all")
	f.StringVar(&o.snapshot, "snapshot", "", "judge a folder of YAML or JSON files instead of a live cluster")
	f.StringVar(&o.now, "now", "", "the time of the snapshot, as in 2026-11-20T10:00:00Z (default: its newest Lease renewal or SandboxReport)")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	f.BoolVar(&o.all, "all", false, "list what is in use, too")
	f.StringVar(&o.agents, "agents", "auto", "auto: judge without node agents where there are none; required: never conclude anything without their reports")
	f.StringVar(&o.agentNodes, "agent-nodes", "kubernetes.io/os=linux", "label selector of the nodes that run an agent")
	f.DurationVar(&o.unreachable, "unreachable-node-timeout", 0, "free what a node holds that has been not Ready for so long; 0 never does: behind a partition the addresses are in use")
	f.StringVar(&o.logLevel, "log-level", logLevel, "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// reconciler makes the reconciler that the flags ask for.
func (o *options) reconciler(std streams) (*reconciler.Reconciler, error) {
	log, err := o.logger(std.err)
	if err != nil {
		return nil, err
	}
	policy, err := o.policy()
	if err != nil {
		return nil, err
	}
	if o.output != "table" && o.output != "json" && o.output != "yaml" {
		return nil, fmt.Errorf("--output %q: must be table, json or yaml", o.output)
	}
	r := &reconciler.Reconciler{
		Options: reconciler.Options{Policy: policy},
		Clock:   clock.RealClock{},
		Jitter:  func(d time.Duration) time.Duration { return d/2 + rand.N(d) },
		Log:     log,
		History: reconciler.NewHistory(),
	}
	if o.snapshot != "" {
		return r, o.openSnapshot(r)
	}
	if o.now != "" {
		return nil, errors.New("--now is for --snapshot only: a live cluster has its own clock")
	}
	return r, o.connect(r)
}

func (o *options) openSnapshot(r *reconciler.Reconciler) error {
	var now time.Time
	if o.now != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return fmt.Errorf("--now %q: must be a time as in 2026-11-20T10:00:00Z", o.now)
		}
	}
	folder, err := snapshot.Open(o.snapshot, now, o.ownNamespace())
	if err != nil {
		return err
	}
	r.Source, r.Writer, r.Options.Settled = folder, folder, true
	return nil
}

func (o *options) connect(r *reconciler.Reconciler) error {
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cluster, err := kube.New(config, kube.Settings{
		Namespace: o.ownNamespace(), Timeout: o.timeout, WithoutLease: o.withoutLease, Jitter: r.Jitter, Log: r.Log,
		Identity: fmt.Sprintf("ip-reconcile/%s_%08x", host, rand.Uint32()),
	})
	r.Source, r.Writer = cluster, cluster
	return err
}

func (o *options) restConfig() (*rest.Config, error) {
	if o.qps <= 0 || o.burst <= 0 {
		return nil, errors.New("--kube-api-qps and --kube-api-burst must be above zero")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster to look at: no kubeconfig was found and this is no pod; give --kubeconfig, or --snapshot for exported files")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "ip-reconcile"
	return config, nil
}

func (o *options) policy() (reconciler.Policy, error) {
	p := reconciler.Policy{AgentsRequired: o.agents == "required", UnreachableNodeTimeout: o.unreachable}
	if o.agents != "auto" && o.agents != "required" {
		return p, fmt.Errorf("--agents %q: must be auto or required", o.agents)
	}
	if o.unreachable < 0 {
		return p, fmt.Errorf("--unreachable-node-timeout %s: must not be negative", o.unreachable)
	}
	var err error
	if p.AgentNodes, err = labels.Parse(o.agentNodes); err != nil {
		return p, fmt.Errorf("--agent-nodes: %w", err)
	}
	return p, nil
}

func (o *options) logger(w io.Writer) (*slog.Logger, error) {
	klog.SetLogger(klog.New(nil)) // client-go's own lines repeat what we say better
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: must be debug, info, warn or error", o.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("--log-format %q: must be text or json", o.logFormat)
}

// ownNamespace is where the reconciler and the node agents live.
func (o *options) ownNamespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	if text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "kube-system"
}

func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}

func (o *options) completions(c *cobra.Command) {
	complete(c, "output", "table", "json", "yaml")
	complete(c, "agents", "auto", "required")
	complete(c, "log-level", "debug", "info", "warn", "error")
	complete(c, "log-format", "text", "json")
	_ = c.MarkFlagDirname("snapshot")
}
