// Package clusterflags has the flags of the commands that judge a cluster, and makes of them a Reconciler and the connection
// (Connect). It is apart from package flags, which the node agent has too: the agent must not link what judges.
package clusterflags

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// Flags are the values; their zero is not their default, see Add.
type Flags struct {
	flags.Common
	// QPS and Burst limit the requests to the API server.
	QPS   float32
	Burst int
	// Timeout of one request.
	Timeout                    time.Duration
	WithoutLease, WithoutPause bool
	// Options are complete once Reconciler has read them.
	reconciler.Options

	agents, agentNodes string
}

// confirmAfter is longer than the time for which a runtime may not list a sandbox
// that it is setting up.
const confirmAfter = 15 * time.Minute

// Add adds the flags of observing and judging; logLevel is the default of --log-level.
func (o *Flags) Add(f *pflag.FlagSet, logLevel string) {
	o.Common.Add(f, logLevel)
	f.Float32Var(&o.QPS, "kube-api-qps", 1000, "requests per second to the API server")
	f.IntVar(&o.Burst, "kube-api-burst", 2000, "requests that may be made at once")
	f.DurationVar(&o.Timeout, "request-timeout", 30*time.Second, "limit of one request; there is none over all")
	f.StringVar(&o.agents, "agents", "auto", "auto: judge without node agents where there are none; required: never conclude anything without their reports")
	f.StringVar(&o.agentNodes, "agent-nodes", "kubernetes.io/os=linux", "label selector of the nodes that run an agent")
	f.DurationVar(&o.UnreachableNodeTimeout, "unreachable-node-timeout", 0, "free what a node holds that has been not Ready for so long; 0 never does: behind a partition the addresses are in use")
	f.BoolVar(&o.TrustNetworkStatus, "trust-network-status", false, "without node agents release what the network-status of a running pod lacks: whoever may edit a pod can then have its address assigned to another while it is in use")
}

// AddWriting adds the flags of releasing.
func (o *Flags) AddWriting(f *pflag.FlagSet) {
	o.AddConfirmAfter(f)
	f.BoolVar(&o.Repair, "repair", false, "write back entries and reservations that running pods lack, and rewrite those of pods of the past")
	o.AddMassRepair(f)
	o.AddWithout(f)
}

// AddConfirmAfter adds the flag of what is waited for, which a command that only tells what
// would be done has, too.
func (o *Flags) AddConfirmAfter(f *pflag.FlagSet) {
	f.DurationVar(&o.ConfirmAfter, "confirm-after", confirmAfter, "for how long nothing must contradict an unconfirmed verdict before it is acted upon")
}

// AddMassRepair adds the flag that switches off the bounds of repairs.
func (o *Flags) AddMassRepair(f *pflag.FlagSet) {
	f.BoolVar(&o.AllowMassRepair, "allow-mass-repair", false, "write back more by nodes' reports than the pods in the API ask for and the bounds allow, or than half of a pool")
}

// AddWithout adds the flags for rights that do not reach whereabouts' Lease or the reconciler's namespace.
func (o *Flags) AddWithout(f *pflag.FlagSet) {
	f.BoolVar(&o.WithoutPause, "without-pause", false, "release although RBAC forbids to read the reconciler's namespace, whose annotation may pause everything")
	f.BoolVar(&o.WithoutLease, "without-lease", false, "write without taking whereabouts' Lease, where there is no right to it")
}

// Completions completes the flags in a shell.
func (o *Flags) Completions(c *cobra.Command) {
	o.Common.Completions(c)
	flags.Complete(c, "agents", "auto", "required")
}

// Reconciler makes a reconciler of the flags, without a source and a writer.
func (o *Flags) Reconciler(log *slog.Logger) (_ *reconciler.Reconciler, err error) {
	o.AgentsRequired = o.agents == "required"
	switch {
	case o.agents != "auto" && !o.AgentsRequired:
		return nil, fmt.Errorf("--agents %q: must be auto or required", o.agents)
	case o.UnreachableNodeTimeout < 0:
		return nil, fmt.Errorf("--unreachable-node-timeout %s: must not be negative", o.UnreachableNodeTimeout)
	case o.ConfirmAfter < 0:
		return nil, fmt.Errorf("--confirm-after %s: must not be negative", o.ConfirmAfter)
	}
	if o.AgentNodes, err = labels.Parse(o.agentNodes); err != nil {
		return nil, fmt.Errorf("--agent-nodes: %w", err)
	}
	return &reconciler.Reconciler{Options: o.Options, Clock: clock.RealClock{}, Jitter: jitter, Log: log, History: reconciler.NewHistory()}, nil
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Connect returns the cluster that the flags name, and its client's configuration;
// component is what the User-Agent says of the program.
func (o *Flags) Connect(component string, log *slog.Logger) (*kube.Cluster, *rest.Config, error) {
	if o.QPS <= 0 || o.Burst <= 0 {
		return nil, nil, errors.New("--kube-api-qps and --kube-api-burst must be above zero")
	}
	config, err := o.Config(component, o.QPS, o.Burst)
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cluster, err := kube.New(config, kube.Settings{
		Namespace: o.Namespace(), LeaseNamespace: o.LeaseNamespace(), Timeout: o.Timeout, WithoutLease: o.WithoutLease, WithoutPause: o.WithoutPause, Jitter: jitter, Log: log,
		Pod:      cmp.Or(os.Getenv("POD_NAME"), os.Getenv("HOSTNAME"), host), // the host's name is the pod's but on the host's network
		Identity: fmt.Sprintf("ip-reconcile/%s_%08x", host, rand.Uint32()),
	})
	return cluster, config, err
}
