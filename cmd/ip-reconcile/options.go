package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/cmd/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// options are the flags that run, check and explain share.
type options struct {
	flags.Common
	node               flags.Node
	qps                float32
	burst              int
	timeout            time.Duration
	snapshot, now      string
	output             string
	all                bool
	agents, agentNodes string
	unreachable        time.Duration
	withoutLease       bool
}

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	o.Common.Add(f, logLevel)
	o.node.Add(f, "also look at the container runtime of --node itself, at this socket: for a node without an agent")
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
}

// reconciler makes the reconciler that the flags ask for.
func (o *options) reconciler(std streams) (*reconciler.Reconciler, error) {
	log, err := o.Logger(std.err)
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
		if o.node.Socket != "" {
			return nil, errors.New("--cri looks at a live node: it does not go with --snapshot")
		}
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
	folder, err := snapshot.Open(o.snapshot, now, o.Namespace())
	if err != nil {
		return err
	}
	r.Source, r.Writer, r.Options.Settled = folder, folder, true
	return nil
}

func (o *options) connect(r *reconciler.Reconciler) error {
	onNode := func(cluster reconciler.Source) reconciler.Source { return cluster }
	if o.node.Socket != "" {
		var err error
		if onNode, err = o.onNode(); err != nil {
			return err
		}
	}
	if o.qps <= 0 || o.burst <= 0 {
		return errors.New("--kube-api-qps and --kube-api-burst must be above zero")
	}
	config, err := o.Config(o.qps, o.burst)
	if errors.Is(err, flags.ErrNoCluster) && o.node.Socket == "" {
		return fmt.Errorf("%w, or --snapshot for exported files", err)
	}
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cluster, err := kube.New(config, kube.Settings{
		Namespace: o.Namespace(), Timeout: o.timeout, WithoutLease: o.withoutLease, Jitter: r.Jitter, Log: r.Log,
		Identity: fmt.Sprintf("ip-reconcile/%s_%08x", host, rand.Uint32()),
	})
	if err != nil {
		return err
	}
	r.Source, r.Writer = onNode(cluster), cluster
	return nil
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

func (o *options) completions(c *cobra.Command) {
	o.Completions(c)
	flags.Complete(c, "output", "table", "json", "yaml")
	flags.Complete(c, "agents", "auto", "required")
	_ = c.MarkFlagDirname("snapshot")
}

// onNode makes a cluster's source one that looks at this node as well, here and now.
func (o *options) onNode() (func(reconciler.Source) reconciler.Source, error) {
	eyes, _, err := o.node.Eyes("")
	if err != nil {
		return nil, err
	}
	bootID, err := o.node.BootID()
	if err != nil {
		return nil, err
	}
	return func(cluster reconciler.Source) reconciler.Source {
		return &reconciler.OnNode{Source: cluster, Node: o.node.Name, BootID: bootID, Look: eyes.Report}
	}, nil
}
