package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/sysdump"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// manyNodes is the number of nodes above which sysdump asks on a terminal whether to continue.
const manyNodes = 20

func newSysdump(std streams) *cobra.Command {
	o := &options{component: "sysdump"}
	d := &sysdump.Dump{Manifest: &document.Sysdump{Files: []string{}, Missing: []string{}}}
	var yes bool
	c := &cobra.Command{
		Use:   "sysdump FILE.tgz",
		Short: "Write one file for a bug report, which --snapshot reads; read-only",
		Long: `Write an archive with what was judged, the output of status, the metrics of the reconciler,
and its logs and those of some node agents. 'ip-reconcile check --snapshot FILE.tgz' gives
the same verdicts as the cluster. manifest.json lists what the archive has and what could
not be collected. sysdump does not change the cluster.

Objects have only the fields that judging reads: no environment, no Secret, no label or
annotation but those that are read. Logs, metrics and status are as the programs wrote them:
they name pods, nodes, namespaces, addresses and errors of the API server. Logs need the
permission to get pods/log, metrics to get pods/proxy; without it the rest is written.

--redact-names gives pods, namespaces, nodes and workloads other names, the same ones in
each archive of the cluster, and leaves out logs, metrics and status. Addresses, UIDs,
networks and the namespaces kube-system and default stay as they are.

Exit code 0: the archive has everything; 1: a part could not be collected; 2: the archive
could not be written.`,
		Example: `  ip-reconcile sysdump ip-reconcile.tgz
  ip-reconcile sysdump renamed.tgz --redact-names --yes
  ip-reconcile check --snapshot ip-reconcile.tgz --all`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			err := o.sysdump(c.Context(), std, d, args[0], yes)
			if err == nil && len(d.Manifest.Missing) > 0 {
				return errUnresolved
			}
			return err
		},
	}
	o.given = c.Flags()
	o.Flags.Add(c.Flags(), "error")
	o.printing.add(c.Flags())
	o.Completions(c)
	f := c.Flags()
	f.BoolVar(&d.Manifest.Redacted, "redact-names", false, "give pods, namespaces, nodes and workloads other names")
	f.DurationVar(&d.Since, "logs-since", 24*time.Hour, "how far back logs go")
	f.IntVar(&d.Agents, "max-agents", 10, "how many node agents' logs are taken at most")
	f.BoolVar(&yes, "yes", false, fmt.Sprintf("do not ask whether to continue, as on a terminal for more than %d nodes",
		manyNodes))
	return c
}

func (o *options) sysdump(ctx context.Context, std streams, d *sysdump.Dump, path string, yes bool) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	probe, err := statuscmd.Find(ctx, &o.Flags, o.given)
	if err != nil {
		return err
	}
	probe.Version = version.Get().Version
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return err
	}
	config, err := o.Config(o.component, o.QPS, o.Burst)
	if err != nil {
		return err
	}
	if d.Core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	lines := probe.Lines(ctx, r, r.Writer.(*kube.Cluster))
	if probe.Judgement != nil && !yes && !std.continues(ctx, len(probe.Observation.Nodes), d.Agents) {
		return errors.New("stopped: nothing was written")
	}
	cluster := o.cluster
	if d.Manifest.Redacted {
		cluster = document.Cluster{}
	}
	d.Manifest.Header = document.NewHeader(document.KindSysdump, version.Get().Version, cluster, probe.Now)
	d.Open(file)
	if probe.Judgement == nil {
		d.Fail("objects", probe.Unjudged)
	} else if err := o.dumpObjects(ctx, d, r, probe.Observation); err != nil {
		return err
	}
	if d.Manifest.Redacted {
		d.Limit("logs, metrics and status are omitted: they have names")
	} else {
		s := &screen.Screen{}
		s.Head(d.Manifest.Header)
		s.Status(document.OfStatus(document.Header{}, lines))
		d.Text("status.txt", []byte(s.String()), nil)
		d.Pods(ctx, o.Namespace(), o.LeaseNamespace())
	}
	if err := errors.Join(d.Close(), ctx.Err()); err != nil {
		return err
	}
	return o.print(ctx, std, answer{
		kind: document.KindSysdump, at: d.Manifest.ObservedAt,
		document: func(document.Header) any { return d.Manifest },
		names:    func() []string { return d.Manifest.Files },
		screen:   func(s *screen.Screen) { s.Sysdump(d.Manifest, path, o.judging()) },
	})
}

// continues asks on a terminal whether to go on with many nodes.
func (std streams) continues(ctx context.Context, nodes, agents int) bool {
	return std.in == nil || nodes <= manyNodes || std.ask(ctx, fmt.Sprintf(
		"The cluster has %d nodes; the archive gets the logs of %d node agents at most. Continue?", nodes, agents))
}

// dumpObjects adds what was observed, and what processes share.
func (o *options) dumpObjects(
	ctx context.Context, d *sysdump.Dump, r *reconciler.Reconciler, observed *judge.Observation,
) error {
	e := snapshot.Encoder{}
	requirements, _ := r.Options.AgentNodes.Requirements()
	for _, r := range requirements {
		e.Labels = append(e.Labels, r.Key())
	}
	if d.Manifest.Redacted {
		key := []byte(rand.Text()) // where the UID may not be read
		if uid := o.clusterUID(ctx); uid != "" {
			key = []byte(uid)
		}
		e.Rename = sysdump.Names(key, metav1.NamespaceSystem, metav1.NamespaceDefault, o.Namespace(), o.LeaseNamespace())
	}
	if err := d.Objects(observed, e); err != nil {
		return err
	}
	facts := d.Manifest.Judged
	stores := map[*string]reconciler.StateStore{&facts.Breaker: r.BreakerStore, &facts.Restore: r.RestoreStore}
	for into, store := range stores {
		err := store.Update(ctx, func(kept string) (string, error) {
			*into = kept
			return kept, nil
		})
		if err != nil {
			d.Fail("state of the breaker and of restores", err)
		}
	}
	if d.Manifest.Redacted && facts.Restore != "" {
		facts.Restore = ""
		d.Fail("state of the last restore of etcd", errors.New("omitted, since it names nodes"))
	}
	return nil
}

// judging are the flags that decide about verdicts, where they are not the defaults.
func (o *options) judging() (flags string) {
	o.given.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "agents", "agent-nodes", "trust-network-status", "unreachable-node-timeout":
			if f.Value.String() != f.DefValue {
				flags += fmt.Sprintf(" --%s=%s", f.Name, f.Value)
			}
		}
	})
	return flags
}
