// Package clusterflags has the flags of the commands that judge a cluster. It makes a Reconciler and a connection of
// them. Package flags is apart from it, since the node agent uses that, and must not link the code that judges.
package clusterflags

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Flags are the values of the flags. Add sets the defaults, which are not the zero values.
type Flags struct {
	flags.Common
	// QPS and Burst limit the requests to the API server.
	QPS   float32
	Burst int
	// Timeout limits one request.
	Timeout                    time.Duration
	WithoutLease, WithoutPause bool
	// Options are complete after a call of Reconciler.
	plan.Options
	// MaxWait, PodsComplete and Because are those of a Reconciler.
	MaxWait      time.Duration
	PodsComplete bool
	Because      string

	agents, agentNodes, auditLog string
}

// ConfirmAfter is longer than a runtime may fail to list a sandbox that it sets up.
const ConfirmAfter = 15 * time.Minute

// Add adds the flags of observing and judging. logLevel is the default of --log-level.
func (o *Flags) Add(f *pflag.FlagSet, logLevel string) {
	o.Common.Add(f, logLevel)
	f.Float32Var(&o.QPS, "kube-api-qps", 1000, "requests per second to the API server")
	f.IntVar(&o.Burst, "kube-api-burst", 2000, "requests to the API server at once")
	f.DurationVar(&o.Timeout, "request-timeout", 30*time.Second,
		"time limit of one request; a read is repeated for twice as long, and the command itself has no limit")
	f.StringVar(&o.agents, "agents", "auto",
		"auto: where no node has an agent, judge without reports; required: never judge without reports")
	f.StringVar(&o.agentNodes, "agent-nodes", "kubernetes.io/os=linux", "label selector of the nodes that run an agent")
	f.DurationVar(&o.UnreachableNodeTimeout, "unreachable-node-timeout", 0,
		"judge addresses of a node as stale when it was not Ready for so long; 0: never, since they may be in use behind "+
			"a partition")
	f.BoolVar(&o.TrustNetworkStatus, "trust-network-status", false,
		"without node agents, judge an address as stale when the running pod's network-status lacks it; "+
			"whoever may edit a pod can then have its address assigned to another pod while it is in use")
}

// AddRunning adds the flags of run and serve.
func (o *Flags) AddRunning(f *pflag.FlagSet) {
	o.AddConfirmAfter(f)
	f.BoolVar(&o.Repair, "repair", false,
		"write the allocations and reservations that running pods lack, and correct those that name an ended sandbox")
	o.AddMassRepair(f)
	o.AddWriting(f)
}

// AddConfirmAfter adds the flag for the wait that unconfirmed verdicts have. Read-only commands have it to say when.
func (o *Flags) AddConfirmAfter(f *pflag.FlagSet) {
	f.DurationVar(&o.ConfirmAfter, "confirm-after", ConfirmAfter,
		"how long every pass must agree on an unconfirmed verdict before it is confirmed, and the last report of a node "+
			"whose Node object is missing holds its addresses")
}

// AddMassRepair adds the flag that switches off the bounds of repairs.
func (o *Flags) AddMassRepair(f *pflag.FlagSet) {
	f.BoolVar(&o.AllowMassRepair, "allow-mass-repair", false,
		"write without bounds: more addresses than the pods in the API ask for, or more than half of a pool")
}

// AddWriting adds the flags of every command that writes: for accounts that may not use whereabouts' Lease or read the
// reconciler's namespace, and for the log of what was released, repaired and refused.
func (o *Flags) AddWriting(f *pflag.FlagSet) {
	f.BoolVar(&o.WithoutPause, "without-pause", false,
		"write although RBAC forbids reading the reconciler's namespace, whose annotation may pause everything")
	f.BoolVar(&o.WithoutLease, "without-lease", false, "write without whereabouts' Lease, where RBAC forbids it")
	f.StringVar(&o.auditLog, "audit-log", "",
		"append each record of the history to this file, too, as a line of JSON; - for stdout")
}

// Reconciler returns a reconciler without a source and a writer.
func (o *Flags) Reconciler(log *slog.Logger) (_ *reconciler.Reconciler, err error) {
	o.AgentsRequired = o.agents == "required"
	switch {
	case o.agents != "auto" && !o.AgentsRequired:
		return nil, fmt.Errorf("--agents %q: must be auto or required", o.agents)
	case o.UnreachableNodeTimeout < 0:
		return nil, fmt.Errorf("--unreachable-node-timeout %s: must not be negative", o.UnreachableNodeTimeout)
	case o.ConfirmAfter < 0:
		return nil, fmt.Errorf("--confirm-after %s: must not be negative", o.ConfirmAfter)
	case o.MaxWait < 0: // no limit would follow
		return nil, fmt.Errorf("--max-wait %s: must not be negative", o.MaxWait)
	case o.Timeout < 0:
		return nil, fmt.Errorf("--request-timeout %s: must not be negative", o.Timeout)
	}
	if o.AgentNodes, err = labels.Parse(o.agentNodes); err != nil {
		return nil, fmt.Errorf("--agent-nodes %q: must be a label selector, for example kubernetes.io/os=linux", o.agentNodes)
	}
	return &reconciler.Reconciler{
		Options: o.Options, MaxWait: o.MaxWait, PodsComplete: o.PodsComplete, Because: o.Because,
		Clock: clock.RealClock{}, Jitter: jitter, Log: log, Process: &reconciler.Process{},
	}, nil
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// History returns the ring of a cluster's records, in ConfigMaps of the reconciler's namespace.
func History(cluster *kube.Cluster) *audit.Ring {
	return audit.NewConfigMapRing(cluster.ConfigMaps(), map[string]string{kube.NameLabel: kube.Product})
}

// Trail returns the writer of a cluster's history. command names this program. failed counts what cannot be written.
func (o *Flags) Trail(cluster *kube.Cluster, command string, log *slog.Logger, failed func(int)) (*audit.Trail, error) {
	t := &audit.Trail{Ring: History(cluster), WhoAmI: cluster.WhoAmI, Now: cluster.NowOrLocal, Failed: failed, Log: log,
		Origin: audit.Origin{Command: command, Run: fmt.Sprintf("%08x", rand.Uint32())}}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		t.Origin.Pod = cluster.Pod
	}
	if o.auditLog == "-" {
		t.File = border.Writer(os.Stdout)
	} else if o.auditLog != "" {
		file, err := os.OpenFile(o.auditLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--audit-log: %w", err)
		}
		t.File = file
	}
	return t, nil
}

// Connect returns a reconciler of the cluster that the flags name, with all its stores, the cluster, and its client's
// configuration. component is for the User-Agent.
func (o *Flags) Connect(component string, log *slog.Logger) (
	*reconciler.Reconciler, *kube.Cluster, *rest.Config, error,
) {
	r, err := o.Reconciler(log)
	if err == nil && (!(o.QPS > 0) || o.Burst <= 0) { // NaN is not above zero
		err = errors.New("--kube-api-qps and --kube-api-burst must be above zero")
	}
	var config *rest.Config
	if err == nil {
		config, err = o.Config(component, o.QPS, o.Burst)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cluster, err := kube.New(config, kube.Settings{
		Namespace: o.Namespace(), LeaseNamespace: o.LeaseNamespace(), Timeout: o.Timeout,
		WithoutLease: o.WithoutLease, WithoutPause: o.WithoutPause, Jitter: jitter, Log: log,
		Pod:      cmp.Or(os.Getenv("POD_NAME"), os.Getenv("HOSTNAME"), host), // the host's name may not be the pod's
		Identity: fmt.Sprintf("ip-reconcile/%s_%08x", host, rand.Uint32()),
	})
	if err != nil {
		return nil, nil, nil, err
	}
	r.Source, r.Leases, r.WithoutRestoreStore = cluster, cluster, o.WithoutLease
	r.BreakerStore, r.RestoreStore, r.PassStore = cluster.BreakerStore(), cluster.RestoreStore(), cluster.PassStore()
	return r, cluster, config, nil
}
