package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/sysdump"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// manyNodes is the number of nodes above which sysdump asks on a terminal whether to continue.
const manyNodes = 20

func newSysdump(std streams) *cobra.Command {
	o := &options{streams: std, component: "sysdump"}
	var redact bool
	c := &cobra.Command{
		Use:   "sysdump FILE.tgz",
		Short: "Write one file for a bug report, which --snapshot reads; read-only",
		Long: `Write an archive with what was judged, the output of status, and metrics and logs of the
reconciler and of ten node agents at most. 'ip-reconcile check --snapshot FILE.tgz' of the
same version gives the verdicts of the cluster. sysdump does not change the cluster.

Each kind has a list of its objects, as 'kubectl get -o json' writes it, with the fields
and annotations that judging reads: no environment, no Secret. manifest.json counts the
objects, and lists what could not be collected. An archive that lacks objects is
refused; one that was edited otherwise is not noticed.

Status and logs name pods, nodes, addresses and errors of the API server. Each log has a
day, the newest 20,000 lines and 4 MiB at most. Logs need the permission to get pods/log, metrics
pods/proxy.

--redact-names gives pods, namespaces, nodes and workloads other names, the same ones in
each archive of the cluster, and leaves out logs, metrics, status and the texts of notes
and errors. Addresses, UIDs, networks and the namespaces kube-system and default stay as
they are, and so does the name of a pool that is the slice of a node which is gone.

Exit code 0: the archive has everything; 1: a part could not be collected; 2: the archive
could not be written.`,
		Example: `  ip-reconcile sysdump ip-reconcile.tgz
  ip-reconcile sysdump renamed.tgz --redact-names
  ip-reconcile check --snapshot ip-reconcile.tgz --all`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.sysdump(c.Context(), args[0], redact) },
	}
	o.addWithoutNode(c.Flags(), "error")
	c.Flags().BoolVar(&redact, "redact-names", false, "give pods, namespaces, nodes and workloads other names")
	return c
}

func (o *options) sysdump(ctx context.Context, path string, redact bool) error {
	var d *sysdump.Dump
	err := create(path, func(w io.Writer) (err error) {
		d, err = o.dump(ctx, w, redact)
		return cmp.Or(err, ctx.Err())
	})
	if err != nil {
		return err
	}
	return o.print(ctx, answer{
		document: &d.Manifest, isUnresolved: len(d.Manifest.Missing) > 0,
		names:  func() []string { return d.Manifest.Files },
		screen: func(s *screen.Screen) { s.Sysdump(&d.Manifest, path, o.checkCommand(path)) },
	})
}

func (o *options) dump(ctx context.Context, file io.Writer, redact bool) (*sysdump.Dump, error) {
	probe, err := statuscmd.Find(ctx, &o.Flags, o.given)
	if err != nil {
		return nil, err
	}
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return nil, err
	}
	var e snapshot.Encoder
	if o.cluster.UID, _ = o.clusterUID(ctx); redact { // a plan of it would name other pods than the cluster has
		e.Rename = sysdump.Names(cmp.Or(o.cluster.UID, rand.Text()), metav1.NamespaceSystem, metav1.NamespaceDefault,
			o.Namespace(), o.LeaseNamespace())
		o.cluster, o.clusterUID = view.Cluster{}, nil
	}
	requirements, _ := r.Options.AgentNodes.Requirements()
	for _, r := range requirements {
		e.Labels = append(e.Labels, r.Key())
	}
	r.Progress = nil
	o.progress.Say("Collecting objects, logs and metrics")
	cluster.AllGuests = true
	cluster.Copies = &kube.Copies{Reduce: snapshot.Reduce}
	lines := probe.Lines(ctx, r, cluster)
	if probe.Assessment != nil && !o.continues(ctx, len(probe.Observation.Nodes.Or(nil))) {
		return nil, errors.New("stopped: nothing was written")
	}
	d := sysdump.New(file, view.NewHeader(view.KindSysdump, probe.Version, o.cluster, probe.Now))
	if d.Manifest.Redacted = redact; probe.Assessment == nil {
		d.Add("objects", nil, probe.Unjudged)
	} else {
		d.Objects(probe.Observation, func(resource string) snapshot.List {
			return snapshot.List(cluster.Copies.List(resource))
		}, e)
	}
	if redact && len(d.Manifest.Lists) == 0 { // the archive would have the cause alone, which may have names
		return nil, errors.New(strings.Join(d.Manifest.Missing, "; "))
	}
	if !redact { // these have names
		s := &screen.Screen{Width: 100}
		s.Head(d.Manifest.Header)
		s.Status(view.NewStatusReport(probe.Now, lines))
		d.Add("status.txt", []byte(s.String()), nil)
		d.Pods(ctx, probe.Core, o.Namespace(), o.LeaseNamespace())
	}
	return d, d.Close()
}

// continues asks on a terminal whether to go on with many nodes.
func (std streams) continues(ctx context.Context, nodes int) bool {
	return std.in == nil || nodes <= manyNodes || std.ask(ctx, fmt.Sprintf(
		"The cluster has %d nodes; the archive gets the logs of ten node agents at most. Continue?", nodes))
}

// checkCommand is the command that judges an archive, with the flags that decide about verdicts where they are not the
// defaults.
func (o *options) checkCommand(path string) string {
	command := commandName() + " check --snapshot " + advice.QuotePath(path) + " --all"
	for _, name := range []string{"agent-nodes", "agents", "trust-network-status", "unreachable-node-timeout"} {
		if f := o.given.Lookup(name); f.Value.String() != f.DefValue {
			command += fmt.Sprintf(" --%s='%s'", name, f.Value)
		}
	}
	return command
}
