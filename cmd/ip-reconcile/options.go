package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// options are the flags that run, check and explain share.
type options struct {
	clusterflags.Flags
	component     string // the command, for the User-Agent
	node          flags.Node
	snapshot, now string
	given         *pflag.FlagSet
	writes        bool // what is found is written
	printing
	podsComplete bool
	asked
	// cluster is what the documents say of where it was observed.
	cluster func(context.Context) document.Cluster
}

// asked are the flags of what is asked for, and of what makes the command fail.
type asked struct {
	addresses, pools, podNamespaces, nodes, verdicts, reasons, failOn []string

	allNamespaces, all bool

	filter report.Filter
	fails  report.FailOn
}

func (a *asked) add(f *pflag.FlagSet) {
	f.BoolVar(&a.all, "all", false, "list what is in use, too")
	f.StringSliceVar(&a.addresses, "address", nil, "only these addresses")
	f.StringSliceVar(&a.pools, "pool", nil, "only these pools: name, namespace/name, or range as in 10.0.0.0/24")
	f.StringSliceVarP(&a.podNamespaces, "pod-namespace", "n", nil, "only what is recorded for pods of these namespaces")
	f.BoolVarP(&a.allNamespaces, "all-namespaces", "A", false, "what is recorded for pods of all namespaces (the default)")
	f.StringSliceVar(&a.nodes, "on-node", nil, "only what these nodes run, or may run")
	f.StringSliceVar(&a.verdicts, "verdict", nil, "only these verdicts: InUse, Held, Stale")
	f.StringSliceVar(&a.reasons, "reason", nil, "only these reasons or findings, as PodGone or Conflict")
	f.StringSliceVar(&a.failOn, "fail-on", nil, "exit code 1 for these verdicts, reasons, refusals and findings alone, as Conflict,Unrecorded,Stale; none for nothing (default: Stale and every finding)")
}

// check reads the flags.
func (a *asked) check() (err error) {
	if a.allNamespaces && len(a.podNamespaces) > 0 {
		return errors.New("-A/--all-namespaces and -n/--pod-namespace contradict each other: give one of them")
	}
	if a.filter, err = report.NewFilter(a.pools, a.podNamespaces, a.nodes, a.verdicts, a.reasons); err != nil {
		return err
	}
	for _, text := range a.addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--address: %w", err)
		}
		a.filter.Addresses = append(a.filter.Addresses, addr.Unmap())
	}
	a.fails, err = report.NewFailOn(a.failOn)
	return err
}

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	o.given = f
	o.Flags.Add(f, logLevel)
	o.node.Add(f, "also look at the container runtime of --node itself, at this socket: for a node without an agent")
	f.StringVar(&o.snapshot, "snapshot", "", "judge exported objects instead of a live cluster: a folder such as a must-gather, a .tar or .tgz of one, a YAML or JSON file, or - for stdin")
	f.StringVar(&o.now, "now", "", "the time of the snapshot, as in 2026-11-20T10:00:00Z (default: that of its timestamp file, Leases and SandboxReports)")
	f.BoolVar(&o.podsComplete, "pods-complete", false, "with --snapshot: the folder has every pod there is, even if it has none")
	o.printing.add(f)
}

// reconciler makes the reconciler that the flags ask for.
func (o *options) reconciler(ctx context.Context, std streams) (*reconciler.Reconciler, error) {
	log, err := o.Logger(std.err)
	if err != nil {
		return nil, err
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, err
	}
	if err := o.printing.check(); err != nil {
		return nil, err
	}
	// A script's variable may be empty, and no filter at all asks for everything.
	for _, name := range []string{"address", "pool", "pod-namespace", "on-node", "verdict", "reason", "fail-on", "snapshot"} {
		if flag := o.given.Lookup(name); flag != nil && flag.Changed && strings.Trim(flag.Value.String(), "[,]") == "" {
			return nil, fmt.Errorf("--%s is empty: give it a value, or leave it out", name)
		}
	}
	if err := o.asked.check(); err != nil {
		return nil, err
	}
	if o.snapshot != "" {
		if o.node.Socket != "" {
			return nil, errors.New("--cri looks at a live node: it does not go with --snapshot")
		}
		r.Source, err = o.readSnapshot()
		r.Options.PodsComplete = o.podsComplete
		o.cluster = func(context.Context) document.Cluster { return document.Cluster{Snapshot: o.snapshot} }
		return r, err
	}
	if o.podsComplete {
		return nil, errors.New("--pods-complete is for --snapshot only: a live cluster is asked for its pods")
	}
	if o.now != "" {
		return nil, errors.New("--now is for --snapshot only: a live cluster has its own clock")
	}
	return o.connect(ctx, log)
}

// readSnapshot reads a folder or a file, or stdin where its name is "-".
func (o *options) readSnapshot() (_ *snapshot.Snapshot, err error) {
	var now time.Time
	if o.now != "" {
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return nil, fmt.Errorf("--now %q: must be a time as in 2026-11-20T10:00:00Z", o.now)
		}
	}
	if o.snapshot != "-" {
		return snapshot.Open(o.snapshot, now, o.Namespace())
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, errors.New("--snapshot - reads stdin, which is a terminal: pipe YAML, JSON or a tar archive into it")
	}
	return snapshot.OpenStream("stdin", os.Stdin, now, o.Namespace())
}

func (o *options) connect(ctx context.Context, log *slog.Logger) (*reconciler.Reconciler, error) {
	withNode := func(cluster reconciler.Source) reconciler.Source { return cluster }
	if o.node.Socket != "" {
		var err error
		if withNode, err = o.withLocalNode(); err != nil {
			return nil, err
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // a pod's namespace and flags are those of its manifests
		if err := statuscmd.Adopt(ctx, &o.Flags, o.given, o.writes); err != nil {
			return nil, err
		}
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, err
	}
	cluster, _, err := o.Connect(o.component, log)
	if errors.Is(err, flags.ErrNoCluster) && o.node.Socket == "" {
		return nil, fmt.Errorf("%w, or --snapshot for exported files", err)
	}
	if err != nil {
		return nil, err
	}
	r.Source, r.Writer, r.BreakerStore, r.RestoreStore = withNode(cluster), cluster, cluster.BreakerStore(), cluster.RestoreStore()
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" && o.asked.filter.IsZero() { // a CronJob's: what a person runs by hand must not hide that it does not
		r.PassStore = cluster.PassStore()
	}
	o.cluster = func(ctx context.Context) document.Cluster {
		server, uid := cluster.ClusterIdentity(ctx)
		return document.Cluster{Server: server, UID: uid}
	}
	return r, nil
}

// withLocalNode returns what adds an inspection of this node to a cluster's source.
func (o *options) withLocalNode() (func(reconciler.Source) reconciler.Source, error) {
	inspector, _, err := o.node.NodeInspector("")
	if err != nil {
		return nil, err
	}
	bootID, err := o.node.BootID()
	if err != nil {
		return nil, err
	}
	return func(cluster reconciler.Source) reconciler.Source {
		return &reconciler.WithLocalNode{Source: cluster, Node: o.node.Name, BootID: bootID, Inspect: inspector.Report}
	}, nil
}

// notThere is an error for a pool, a namespace or a node that is asked for and that nothing is known of: a namespace has
// a pod or an address that is recorded for one, a node is there, has a report or runs a pod.
func (a *asked) notThere(o *judge.Observation) error {
	if len(a.pools)+len(a.podNamespaces)+len(a.nodes) == 0 {
		return nil
	}
	namespaces, nodes := sets.New[string](), sets.KeySet(o.Nodes)
	for _, p := range o.Pods {
		namespaces.Insert(p.Namespace)
		nodes.Insert(p.Node)
	}
	for _, p := range o.Pools {
		for i := range p.Allocations {
			namespaces.Insert(p.Allocations[i].Owner.Namespace)
		}
	}
	for _, r := range o.Reservations {
		namespaces.Insert(r.Owner.Namespace)
	}
	for _, r := range o.Reports {
		nodes.Insert(r.Name)
	}
	for _, name := range a.pools {
		if !slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool { return (report.Filter{Pools: []string{name}}).Pool(p.Ref()) }) {
			return fmt.Errorf("--pool %q: there is no such pool; 'pools' lists them", name)
		}
	}
	for _, name := range a.podNamespaces {
		if !namespaces.Has(name) {
			return fmt.Errorf("--pod-namespace %q: it has no pods, and no address is recorded for any", name)
		}
	}
	for _, name := range a.nodes {
		if !nodes.Has(name) {
			return fmt.Errorf("--on-node %q: there is no such node", name)
		}
	}
	return nil
}

// header is the head of a document about what was observed.
func (o *options) header(ctx context.Context, kind string, observed *judge.Observation) document.Header {
	return document.NewHeader(kind, version.Get().Version, o.cluster(ctx), observed.Now)
}

// completions completes the values of flags in a shell.
func (o *options) completions(c *cobra.Command) {
	o.Completions(c)
	flags.Complete(c, "output", append(outputs(), jsonPathPrefix)...)
	_ = c.MarkFlagFilename("snapshot") // a folder, or an archive
	words := slices.Concat(judge.ReasonNames(), report.Kinds())
	flags.Complete(c, "verdict", report.Verdicts()...)
	flags.Complete(c, "reason", words...)
	flags.Complete(c, "fail-on", slices.Concat(report.Verdicts(), words, []string{report.FailOnNothing})...)
}
