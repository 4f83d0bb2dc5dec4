package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

type options struct {
	streams
	clusterflags.Flags
	component     string // the command, for the User-Agent
	node          flags.Node
	snapshot, now string
	given         *pflag.FlagSet
	printing
	selection
	// writes is true for a command that may write to the cluster. All others are dry runs.
	writes, yes bool
	dryRun      string // the value of --dry-run
	// cluster is what was judged, and clusterUID returns its UID, "" for files that lack it.
	cluster    view.Cluster
	clusterUID func(context.Context) (string, error)
	trail      *audit.Trail // of a command that writes
	retire     []string     // the pools whose removal is planned
	// retirements are the pools of a plan that can be deleted.
	retirements []*reconciler.Retirement
}

// selection are the flags that pick items and findings, and that decide about the exit code.
type selection struct {
	addresses, verdicts, failOn []string
	allNamespaces, all          bool

	filter view.Filter
	fails  view.FailOn
}

// add adds the flags. failOn is the default of --fail-on in words.
func (s *selection) add(f *pflag.FlagSet, failOn string) {
	s.addFilters(f)
	f.BoolVar(&s.all, "all", false, "list what is in use, too")
	f.StringSliceVar(&s.verdicts, "verdict", nil, "only these verdicts: InUse, Held, Stale")
	f.StringSliceVar(&s.failOn, "fail-on", nil, "exit code 1 only for these verdicts, reasons, refusals and findings, "+
		"for example Conflict,Stale; none: never (default: "+failOn+")")
}

func (s *selection) addFilters(f *pflag.FlagSet) {
	f.StringSliceVar(&s.addresses, "address", nil, "only these addresses")
	f.StringSliceVar(&s.filter.Pools, "pool", nil,
		"only these pools: name, namespace/name, or range, for example 10.0.0.0/24")
	f.StringSliceVarP(&s.filter.PodNamespaces, "pod-namespace", "n", nil,
		"only allocations and reservations of pods in these namespaces")
	f.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false,
		"allocations and reservations of pods in all namespaces (the default)")
	f.StringSliceVar(&s.filter.Nodes, "on-node", nil, "only items whose sandbox runs, or may run, on these nodes")
	f.StringSliceVar(&s.filter.Reasons, "reason", nil, "only these reasons or findings, for example PodGone or Conflict")
}

func (s *selection) check() (err error) {
	if s.allNamespaces && len(s.filter.PodNamespaces) > 0 {
		return errors.New("-A/--all-namespaces and -n/--pod-namespace contradict each other: give one of them")
	}
	if err = s.filter.Parse(s.addresses, s.verdicts); err != nil {
		return err
	}
	for i, name := range s.filter.Pools {
		s.filter.Pools[i] = explain.NameOf(explain.Pool, name)
	}
	for i, name := range s.filter.Nodes {
		s.filter.Nodes[i] = explain.NameOf(explain.Node, name)
	}
	s.fails, err = view.NewFailOn(s.failOn)
	return err
}

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	o.addLive(f, logLevel)
	o.addSnapshot(f)
}

// addPodNamespace adds the flag for pods that are named without a namespace.
func (o *options) addPodNamespace(f *pflag.FlagSet, namespace *string) {
	f.StringVarP(namespace, "pod-namespace", "n", "", "namespace of the pods that are named without one")
}

func (o *options) addDryRun(f *pflag.FlagSet) {
	f.StringVar(&o.dryRun, "dry-run", "none", "none or client; client prints what would be released, and writes nothing")
	f.Lookup("dry-run").NoOptDefVal = "client"
}

func (o *options) addSnapshot(f *pflag.FlagSet) {
	f.StringVar(&o.snapshot, "snapshot", "",
		"judge exported objects instead of a cluster: a folder, .tar, .tgz, YAML or JSON file, or - for stdin")
	f.StringVar(&o.now, "now", "",
		"time at which the snapshot is judged, for example 2026-11-20T10:00:00Z (default: the snapshot's own)")
	f.BoolVar(&o.PodsComplete, "pods-complete", false, "the snapshot has every pod of the cluster, even where it has none")
}

// addLive adds the flags of a command that judges a live cluster only.
func (o *options) addLive(f *pflag.FlagSet, logLevel string) {
	o.addWithoutNode(f, logLevel)
	o.node.Add(f, "inspect the node on which this runs (--node), too, by the container runtime's socket at this path; "+
		"for a node without an agent")
}

// addWithoutNode adds the flags of a command that does not inspect the node on which it runs.
func (o *options) addWithoutNode(f *pflag.FlagSet, logLevel string) {
	o.given = f
	o.Flags.Add(f, logLevel)
	o.printing.add(f)
}

func (o *options) judge(ctx context.Context) (*reconciler.Reconciler, *reconciler.Result, error) {
	r, _, err := o.reconciler(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, err := r.Check(ctx)
	return r, out, err
}

// reconciler returns the reconciler of the flags and its cluster, nil for a snapshot.
func (o *options) reconciler(ctx context.Context) (*reconciler.Reconciler, *kube.Cluster, error) {
	memory.Spend()
	isDry, isKnown := map[string]bool{"": false, "none": false, "false": false, "client": true, "true": true}[o.dryRun]
	if !isKnown { // as for kubectl, the flag was a boolean once
		return nil, nil, fmt.Errorf("--dry-run %q: must be none or client", o.dryRun)
	}
	o.writes = o.writes && !isDry && o.snapshot == ""
	o.DryRun = !o.writes
	log, err := o.Logger(o.err)
	if err != nil {
		return nil, nil, err
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, nil, err
	}
	if err := cmp.Or(o.printing.check(o.given), o.refuseUseless()); err != nil {
		return nil, nil, err
	}
	// A variable of a script may be empty. Without a filter the command would be about everything.
	// Without a file it would not be written, or not be read, and without a mode a dry run would write.
	for _, name := range []string{"address", "pool", "pod-namespace", "on-node", "verdict", "reason", "fail-on",
		"snapshot", "new-range", "range-start", "range-end", "exclude", "definition", "retire", "pod", "override",
		"because", "now", "cri", "filename", "output-file", "audit-log", "dry-run"} {
		if flag := o.given.Lookup(name); flag != nil && flag.Changed && hasEmpty(flag.Value) {
			return nil, nil, fmt.Errorf("--%s is empty: give it a value, or leave it out", name)
		}
	}
	if err := o.selection.check(); err != nil {
		return nil, nil, err
	}
	if o.snapshot != "" {
		s, err := o.readSnapshot()
		if err != nil {
			return nil, nil, err
		}
		r.Progress = o.progress.Say
		r.Source, o.cluster = s, view.Cluster{Snapshot: o.snapshot}
		o.clusterUID = func(context.Context) (string, error) { return s.ClusterUID, nil }
		return r, nil, nil
	}
	if err := o.checkConsent(); err != nil {
		return nil, nil, err
	}
	o.progress.Say(fmt.Sprintf("Connecting to the cluster; a request without an answer ends after %s", o.Timeout))
	return o.connect(ctx, log)
}

// hasEmpty reports whether a value is empty, or one of a list. An empty name is that of what has no name, such as the
// node of a pod that was never bound.
func hasEmpty(value pflag.Value) bool {
	several, isList := value.(pflag.SliceValue)
	if !isList {
		return value.String() == ""
	}
	all := several.GetSlice()
	return len(all) == 0 || slices.ContainsFunc(all, func(one string) bool { return strings.TrimSpace(one) == "" })
}

// refuseUseless returns an error for a flag that does nothing with the others given. Flags that a script or a manifest
// gives to every command, as --yes, are no mistake.
func (o *options) refuseUseless() error {
	f := o.given
	hint := ""
	if f.Lookup("on-node") != nil {
		hint = "; --on-node selects what runs, or may run, on a node"
	}
	return cmp.Or(
		flags.RefuseWith(f, "snapshot", "which is no live node", "cri"),
		flags.RefuseWithout(f, "cri", hint, "node"),
		flags.RefuseWithout(f, "cri", "", "cni-results", "cni-multus", "netns-dir", "boot-id-file"),
		flags.RefuseWithout(f, "snapshot", ": a live cluster has its own clock", "now"),
		flags.RefuseWithout(f, "snapshot", ": a live cluster lists its pods", "pods-complete"),
		flags.RefuseWith(f, "snapshot", "to which nothing is written", "audit-log", "without-lease", "without-pause"),
		flags.RefuseWith(f, "snapshot", "which needs no requests", "kube-api-qps", "kube-api-burst", "request-timeout"),
		o.checkStdout(),
	)
}

// checkStdout returns an error if both the log of releases and a document would be written to stdout.
func (o *options) checkStdout() error {
	if log := o.given.Lookup("audit-log"); log == nil || log.Value.String() != "-" || o.isTable() {
		return nil
	}
	return fmt.Errorf("--audit-log - writes to stdout, as --output %s does: name a file", o.output)
}

func (o *options) readSnapshot() (_ *snapshot.Snapshot, err error) {
	var now time.Time
	if o.now != "" {
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return nil, fmt.Errorf("--now %q: must be a time, for example 2026-11-20T10:00:00Z", o.now)
		}
	}
	o.progress.Say("Reading the snapshot " + o.snapshot)
	if o.snapshot != "-" {
		return snapshot.Open(o.snapshot, now, o.Namespace())
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, errors.New("--snapshot - reads stdin, which is a terminal: pipe YAML, JSON or a tar archive into it")
	}
	return snapshot.OpenStream("stdin", os.Stdin, now, o.Namespace())
}

func (o *options) connect(ctx context.Context, log *slog.Logger) (*reconciler.Reconciler, *kube.Cluster, error) {
	var local *reconciler.WithLocalNode
	if o.node.Socket != "" {
		inspector, bootID, err := o.node.NodeInspector("")
		if err != nil {
			return nil, nil, err
		}
		local = &reconciler.WithLocalNode{Node: o.node.Name, BootID: bootID, Inspect: inspector.Report}
	}
	own := o.Namespace()
	isWorkload := o.RunsAsPod() && !o.ByHand // the CronJob, or a pod of somebody else
	by := statuscmd.Adopting{Writes: o.writes, MayBeReconciler: isWorkload}
	if err := statuscmd.Adopt(ctx, &o.Flags, o.given, by); err != nil {
		return nil, nil, err
	}
	isWorkload = isWorkload && o.Namespace() == own
	r, cluster, config, err := o.Connect(o.component, log)
	if errors.Is(err, flags.ErrNoCluster) && local == nil && o.given.Lookup("snapshot") != nil {
		return nil, nil, fmt.Errorf("%w, or --snapshot for exported files", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if local != nil {
		r.Source, local.Source = local, cluster
	}
	if !isWorkload || !o.filter.IsZero() { // status reports the passes of a CronJob, not those of a person
		r.PassStore = nil
	}
	if o.writes {
		if o.trail, err = o.Trail(cluster, o.component, log, func(int) {}); err != nil {
			return nil, nil, err
		}
		r.OnOutcome = o.trail.Record
	}
	r.Progress = o.progress.Say
	o.cluster = view.Cluster{Server: config.Host, Context: o.Context}
	o.clusterUID = cluster.UID
	return r, cluster, nil
}

// checkNames returns an error for a pool, a pod namespace or a node that a flag names and that does not exist. A
// namespace exists where it has a pod or an allocation. A node exists where it has a Node object, a report or a pod.
func (s *selection) checkNames(o *facts.Observation) error {
	if len(s.filter.Pools)+len(s.filter.PodNamespaces)+len(s.filter.Nodes) == 0 {
		return nil
	}
	namespaces, nodes := sets.New[string](), sets.KeySet(o.Nodes.Or(nil))
	for _, p := range o.Pods {
		namespaces.Insert(p.Namespace)
		nodes.Insert(p.Node)
	}
	for _, p := range o.Pools {
		for i := range p.Allocations {
			namespaces.Insert(p.Allocations[i].Owner.Namespace)
		}
	}
	for _, r := range o.Reservations.Or(nil) {
		namespaces.Insert(r.Owner.Namespace)
	}
	for _, r := range o.Reports.Or(nil) {
		nodes.Insert(r.Name)
	}
	isPool := func(name string) bool {
		is := view.Filter{Pools: []string{name}}
		return slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool { return is.Pool(p.Ref()) })
	}
	pools := sets.New[string]()
	for _, p := range o.Pools {
		pools.Insert(p.Name, p.Ref())
	}
	for _, c := range []struct {
		flag  string
		names []string
		has   func(string) bool
		known sets.Set[string]
		not   string
		see   string
	}{
		{"pool", s.filter.Pools, isPool, pools, "no such pool", "; '" + commandName() + " pools' lists all pools"},
		{"pod-namespace", s.filter.PodNamespaces, namespaces.Has, namespaces,
			"the namespace has no pods and no allocations", ""},
		{"on-node", s.filter.Nodes, nodes.Has, nodes, "no such node", ""},
	} {
		for _, name := range c.names {
			if !c.has(name) {
				meant := suggest.Words(name, sets.List(c.known.Delete(""))...)
				see := cmp.Or(suggest.Question("", meant[:min(len(meant), 3)]), c.see)
				return fmt.Errorf("--%s %q: %s%s", c.flag, name, c.not, see)
			}
		}
	}
	return nil
}
