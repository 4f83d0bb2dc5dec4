package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// options are the flags that run, check and explain share.
type options struct {
	clusterflags.Flags
	component     string // the command, for the User-Agent
	node          flags.Node
	snapshot, now string
	output        string
	all           bool
	podsComplete  bool

	// PodNamespaces are the namespaces whose pods the output is about; of all if empty.
	PodNamespaces []string
	allNamespaces bool
}

// outputs are the forms in which a command prints what it found.
func outputs() []string { return []string{"table", "json", "yaml"} }

func (o *options) add(f *pflag.FlagSet, logLevel string) {
	o.Flags.Add(f, logLevel)
	o.node.Add(f, "also look at the container runtime of --node itself, at this socket: for a node without an agent")
	f.StringVar(&o.snapshot, "snapshot", "", "judge exported objects instead of a live cluster: a folder such as a must-gather, a .tar or .tgz of one, a YAML or JSON file, or - for stdin")
	f.StringVar(&o.now, "now", "", "the time of the snapshot, as in 2026-11-20T10:00:00Z (default: its newest Lease renewal or SandboxReport)")
	f.BoolVar(&o.podsComplete, "pods-complete", false, "with --snapshot: the folder has every pod there is, even if it has none")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	f.BoolVar(&o.all, "all", false, "list what is in use, too")
}

// addFilter adds the flags of which pods the output is about.
func (o *options) addFilter(f *pflag.FlagSet) {
	f.StringSliceVarP(&o.PodNamespaces, "pod-namespace", "n", nil, "only what belongs to pods of these namespaces")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "of all namespaces (the default)")
}

// reconciler makes the reconciler that the flags ask for.
func (o *options) reconciler(std streams) (*reconciler.Reconciler, error) {
	log, err := o.Logger(std.err)
	if err != nil {
		return nil, err
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(outputs(), o.output) {
		return nil, fmt.Errorf("--output %q: must be table, json or yaml%s", o.output, flags.DidYouMean(o.output, outputs()...))
	}
	if o.allNamespaces && len(o.PodNamespaces) > 0 {
		return nil, errors.New("-A/--all-namespaces and -n/--pod-namespace contradict each other: give one of them")
	}
	if o.snapshot != "" {
		if o.node.Socket != "" {
			return nil, errors.New("--cri looks at a live node: it does not go with --snapshot")
		}
		return r, o.openSnapshot(r)
	}
	if o.podsComplete {
		return nil, errors.New("--pods-complete is for --snapshot only: a live cluster is asked for its pods")
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
	folder, err := readSnapshot(o.snapshot, now, o.Namespace())
	if err != nil {
		return err
	}
	r.Source, r.Writer, r.Options.StaticSource, r.Options.PodsComplete = folder, folder, true, o.podsComplete
	return nil
}

// readSnapshot reads a folder or a file, or stdin where its name is "-".
func readSnapshot(path string, now time.Time, namespace string) (*snapshot.Folder, error) {
	if path != "-" {
		return snapshot.Open(path, now, namespace)
	}
	if isTerminal(os.Stdin) {
		return nil, errors.New("--snapshot - reads stdin, which is a terminal: pipe YAML, JSON or a tar archive into it")
	}
	return snapshot.OpenStream("stdin", os.Stdin, now, namespace)
}

// checkWritable refuses to begin to write to a snapshot that can only be read.
func (o *options) checkWritable(r *reconciler.Reconciler) error {
	if folder, ok := r.Writer.(*snapshot.Folder); ok && !folder.Writable() {
		return fmt.Errorf("--snapshot %s: only a folder can be written to: unpack it and give the folder, or only print what would be done (run --dry-run, recover without --yes)", o.snapshot)
	}
	return nil
}

func (o *options) connect(r *reconciler.Reconciler) error {
	withNode := func(cluster reconciler.Source) reconciler.Source { return cluster }
	if o.node.Socket != "" {
		var err error
		if withNode, err = o.withLocalNode(); err != nil {
			return err
		}
	}
	cluster, _, err := o.Connect(o.component, r.Log)
	if errors.Is(err, flags.ErrNoCluster) && o.node.Socket == "" {
		return fmt.Errorf("%w, or --snapshot for exported files", err)
	}
	if err != nil {
		return err
	}
	r.Source, r.Writer, r.Window, r.Restores = withNode(cluster), cluster, cluster, cluster.Restores()
	return nil
}

func (o *options) completions(c *cobra.Command) {
	o.Completions(c)
	flags.Complete(c, "output", outputs()...)
	_ = c.MarkFlagFilename("snapshot") // a folder, or an archive
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
