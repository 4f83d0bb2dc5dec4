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
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

type options struct {
	clusterflags.Flags
	component     string // the command, for the User-Agent
	node          flags.Node
	snapshot, now string
	given         *pflag.FlagSet
	writes        bool // to the cluster
	printing
	podsComplete bool
	selection
	// cluster is what was judged, and clusterUID asks for its UID; nil for a snapshot.
	cluster    document.Cluster
	clusterUID func(context.Context) string
	trail      *audit.Trail // of a command that writes
}

// selection are the flags that pick items and findings, and that decide about the exit code.
type selection struct {
	addresses, pools, podNamespaces, nodes, verdicts, reasons, failOn []string

	allNamespaces, all bool

	filter report.Filter
	fails  report.FailOn
}

// add adds the flags. failOn is the default of --fail-on in words.
func (s *selection) add(f *pflag.FlagSet, failOn string) {
	s.addFilters(f)
	f.BoolVar(&s.all, "all", false, "list what is in use, too")
	f.StringSliceVar(&s.verdicts, "verdict", nil, "only these verdicts: InUse, Held, Stale")
	f.StringSliceVar(&s.failOn, "fail-on", nil, "exit code 1 only for these verdicts, reasons, refusals and findings, "+
		"for example Conflict,Stale; none: never (default: "+failOn+")")
}

// addFilters adds the flags that pick items.
func (s *selection) addFilters(f *pflag.FlagSet) {
	f.StringSliceVar(&s.addresses, "address", nil, "only these addresses")
	f.StringSliceVar(&s.pools, "pool", nil, "only these pools: name, namespace/name, or range, for example 10.0.0.0/24")
	f.StringSliceVarP(&s.podNamespaces, "pod-namespace", "n", nil,
		"only allocations and reservations of pods in these namespaces")
	f.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false,
		"allocations and reservations of pods in all namespaces (the default)")
	f.StringSliceVar(&s.nodes, "on-node", nil, "only items whose sandbox runs, or may run, on these nodes")
	f.StringSliceVar(&s.reasons, "reason", nil, "only these reasons or findings, for example PodGone or Conflict")
}

func (s *selection) check() (err error) {
	if s.allNamespaces && len(s.podNamespaces) > 0 {
		return errors.New("-A/--all-namespaces and -n/--pod-namespace contradict each other: give one of them")
	}
	if s.filter, err = report.NewFilter(s.pools, s.podNamespaces, s.nodes, s.verdicts, s.reasons); err != nil {
		return err
	}
	for _, text := range s.addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--address %q: must be an IP address", text)
		}
		s.filter.Addresses = append(s.filter.Addresses, addr.Unmap())
	}
	s.fails, err = report.NewFailOn(s.failOn)
	return err
}

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	o.addLive(f, logLevel)
	o.addSnapshot(f)
}

// addMissingAfter adds --confirm-after to a command that waits for no confirmation. It still decides about verdicts.
func (o *options) addMissingAfter(f *pflag.FlagSet) {
	o.AddConfirmAfter(f)
	f.Lookup("confirm-after").Usage = "how long the last report of a node whose Node object is missing holds its addresses"
}

func (o *options) addSnapshot(f *pflag.FlagSet) {
	f.StringVar(&o.snapshot, "snapshot", "",
		"judge exported objects instead of a cluster: a folder, .tar, .tgz, YAML or JSON file, or - for stdin")
	f.StringVar(&o.now, "now", "",
		"time at which the snapshot is judged, for example 2026-11-20T10:00:00Z (default: the snapshot's own)")
	f.BoolVar(&o.podsComplete, "pods-complete", false, "the snapshot has every pod of the cluster, even where it has none")
}

// addLive adds the flags of a command that judges a live cluster only.
func (o *options) addLive(f *pflag.FlagSet, logLevel string) {
	o.addWithoutNode(f, logLevel)
	o.node.Add(f, "inspect the node named by --node, too, by the container runtime's socket at this path; for a node "+
		"without an agent")
}

// addWithoutNode adds the flags of a command that does not inspect the node on which it runs.
func (o *options) addWithoutNode(f *pflag.FlagSet, logLevel string) {
	o.given = f
	o.Flags.Add(f, logLevel)
	o.printing.add(f)
}

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
	// A variable of a script may be empty. Without a filter the command would be about everything.
	for _, name := range []string{"address", "pool", "pod-namespace", "on-node", "verdict", "reason", "fail-on",
		"snapshot", "new-range", "new-exclude"} {
		if flag := o.given.Lookup(name); flag != nil && flag.Changed && strings.Trim(flag.Value.String(), "[,]") == "" {
			return nil, fmt.Errorf("--%s is empty: give it a value, or leave it out", name)
		}
	}
	if err := o.selection.check(); err != nil {
		return nil, err
	}
	if o.snapshot != "" {
		if o.node.Socket != "" {
			return nil, errors.New("--cri inspects a live node, and cannot be used with --snapshot")
		}
		r.Source, err = o.readSnapshot()
		r.Options.PodsComplete = o.podsComplete
		o.cluster = document.Cluster{Snapshot: o.snapshot}
		return r, err
	}
	if o.podsComplete {
		return nil, errors.New("--pods-complete is for --snapshot only: a live cluster lists its pods")
	}
	if o.now != "" {
		return nil, errors.New("--now is for --snapshot only: a live cluster has its own clock")
	}
	return o.connect(ctx, log)
}

// keepHistory writes the history of a command that writes, until the function that it returns is called.
func (o *options) keepHistory() (stop func()) {
	if o.trail == nil {
		return func() {}
	}
	return o.trail.Start()
}

func (o *options) readSnapshot() (_ *snapshot.Snapshot, err error) {
	var now time.Time
	if o.now != "" {
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return nil, fmt.Errorf("--now %q: must be a time, for example 2026-11-20T10:00:00Z", o.now)
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
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if !inPod { // a pod's namespace and flags are in its manifest
		if err := statuscmd.Adopt(ctx, &o.Flags, o.given, o.writes); err != nil {
			return nil, err
		}
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, err
	}
	cluster, config, err := o.Connect(o.component, log)
	if errors.Is(err, flags.ErrNoCluster) && o.node.Socket == "" {
		return nil, fmt.Errorf("%w, or --snapshot for exported files", err)
	}
	if err != nil {
		return nil, err
	}
	r.Source, r.Writer = withNode(cluster), cluster
	r.BreakerStore, r.RestoreStore = cluster.BreakerStore(), cluster.RestoreStore()
	if inPod && o.selection.filter.IsZero() { // status reports the passes of a CronJob, not those of a person
		r.PassStore = cluster.PassStore()
	}
	if o.writes {
		if o.trail, err = o.Trail(cluster, o.component, log, func(int) {}); err != nil {
			return nil, err
		}
		r.Audit = o.trail.Record
	}
	o.cluster = document.Cluster{Server: config.Host, Context: o.Context()}
	o.clusterUID = func(ctx context.Context) string {
		_, uid := cluster.ClusterIdentity(ctx)
		return uid
	}
	return r, nil
}

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

// checkNames returns an error for a pool, a pod namespace or a node that a flag names and that does not exist. A
// namespace exists where it has a pod or an allocation. A node exists where it has a Node object, a report or a pod.
func (s *selection) checkNames(o *judge.Observation) error {
	if len(s.pools)+len(s.podNamespaces)+len(s.nodes) == 0 {
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
	for _, name := range s.pools {
		if !slices.ContainsFunc(o.Pools,
			func(p *ippool.Pool) bool { return (report.Filter{Pools: []string{name}}).Pool(p.Ref()) }) {
			return fmt.Errorf("--pool %q: no such pool; 'ip-reconcile pools' lists all pools", name)
		}
	}
	for _, name := range s.podNamespaces {
		if !namespaces.Has(name) {
			return fmt.Errorf("--pod-namespace %q: the namespace has no pods and no allocations", name)
		}
	}
	for _, name := range s.nodes {
		if !nodes.Has(name) {
			return fmt.Errorf("--on-node %q: no such node", name)
		}
	}
	return nil
}

func (o *options) completions(c *cobra.Command) {
	o.Completions(c)
	flags.Complete(c, "output", append(outputs(), jsonPathPrefix)...)
	_ = c.MarkFlagFilename("snapshot") // a folder, or an archive
	words := slices.Concat(judge.ReasonNames(), report.Kinds())
	flags.Complete(c, "verdict", report.Verdicts()...)
	flags.Complete(c, "reason", words...)
	flags.Complete(c, "fail-on", slices.Concat(report.Verdicts(), words, []string{report.FailOnNothing})...)
}
