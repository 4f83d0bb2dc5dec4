package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func newRecover(std streams) *cobra.Command {
	o := &options{streams: std, component: "recover", writes: true}
	c := &cobra.Command{
		Use:   "recover",
		Short: "After an etcd restore: write the allocations that running pods lack; releases nothing",
		Long: `Write the allocations and reservations of all addresses that running sandboxes carry, as
the node agents report them, and correct those that name an ended sandbox. recover
releases nothing. After an etcd restore 'serve' does the same by itself; recover is for
a cluster without 'serve'.

recover prints what it will write, and asks, also if that is nothing yet: after a restore the
agents report only then what the pools lack. --yes is the answer in advance. Without --yes
and without a terminal to ask on, recover does nothing: exit code 2. --dry-run prints what
it would write.

recover holds whereabouts' own Leases while it writes, for 90 seconds at most. ADDs and DELs
wait until all nodes have renewed their reports, some 20 seconds, and everything is written.
What cannot be written by then is tried again a minute later. Each write tests what it
replaces.

Exit code 0: everything is written; 1: something is not, or may not be, since a node has
not reported or a source cannot be read, and the output says why; 2: the cluster could not
be read, or no agent reports.
` + snapshotHelp,
		Example: `  ip-reconcile recover --dry-run
  ip-reconcile recover
  ip-reconcile recover --snapshot ./must-gather -o yaml`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.yes && o.snapshot != "" {
				return fmt.Errorf("--snapshot %s: recover does not write to a snapshot: leave out --yes", o.snapshot)
			}
			return o.recover(c.Context())
		},
	}
	o.add(c.Flags(), "warn")
	f := c.Flags()
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	o.addDryRun(f)
	f.Lookup("dry-run").Usage = "none or client; client prints what would be written, and writes nothing"
	o.AddMassRepair(f)
	o.AddWriting(f)
	return c
}

func (o *options) recover(ctx context.Context) error {
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	if o.trail != nil {
		defer o.trail.Start()()
	}
	if err := o.askToRecover(ctx, r); err != nil {
		return err
	}
	out, err := o.underFence(ctx, r, cluster)
	if err != nil {
		return err
	}
	d := view.NewRecoverReport(out)
	return o.print(ctx, answer{
		document: d, notes: d.Notes,
		isUnresolved: isUnresolved(out),
		names:        func() []string { return lists.Map(d.Writes, func(w view.WriteRow) string { return w.IP }) },
		screen:       func(s *screen.Screen) { s.Recovery(d, o.writes) },
	})
}

// askToRecover asks whether to write what recover would write now. Right after a restore that is nothing yet: the
// reports are those of the backup, and the agents report the rest while ADDs wait.
func (o *options) askToRecover(ctx context.Context, r *reconciler.Reconciler) error {
	if !o.writes || !o.asks() {
		return nil
	}
	dry := *r
	dry.Options.DryRun = true
	out, err := dry.Recover(ctx)
	if err != nil {
		return err
	}
	does := "repair " + screen.Count(out.ToRepair, "finding")
	switch {
	case out.ToRepair == 0 && o.WithoutLease:
		does = "write what the nodes report, nothing so far"
	case out.ToRepair == 0:
		does = "hold all ADDs and DELs, and write what the nodes report meanwhile, nothing so far"
	}
	d := view.NewRecoverReport(out)
	return o.confirm(ctx, does, "Nothing was written.",
		answer{document: d, screen: func(s *screen.Screen) { s.BeforeRecovery(d) }})
}

// underFence recovers while the fence holds whereabouts' Leases of all pools. A dry run needs no fence.
func (o *options) underFence(
	ctx context.Context, r *reconciler.Reconciler, cluster *kube.Cluster,
) (*reconciler.Result, error) {
	if !o.writes || o.WithoutLease {
		return r.Recover(ctx)
	}
	j, err := r.CheckToRecover(ctx)
	if err != nil {
		return nil, err
	}
	fence := cluster.Fence()
	fence.Lead()
	fence.Raise(ippool.LeasesOf(j.Observation.Pools))
	stands := func(context.Context) (bool, error) { return !fence.Since().IsZero(), nil }
	const raiseFor = 20 * time.Second // ADDs and DELs that hold a Lease may take so long to release it
	at := func(after time.Duration) string { return time.Now().UTC().Add(after).Format("15:04:05 UTC") }
	o.progress.Say("Taking whereabouts' Leases, until " + at(raiseFor) + " at most")
	if wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, raiseFor, true, stands) == nil {
		r.Fence = fence
		says := "; ADDs and DELs wait, until " + at(restore.LongestFence) + " at most"
		r.Progress = func(text string) {
			if fence.Since().IsZero() {
				says = ""
			}
			o.progress.Say(text + says)
		}
	} else if ctx.Err() == nil {
		r.Log.Warn("Could not take whereabouts' Leases; ADDs and DELs go on meanwhile", "missing", fence.State().Missing)
	}
	out, err := r.Recover(ctx)
	if err != nil || ctx.Err() != nil || isUnresolved(out) && !fence.Since().IsZero() {
		fence.Leave() // replicas of serve may keep it for what remains
	} else {
		fence.LowerUnlessShared(ctx)
	}
	return out, err
}

// isUnresolved reports whether something is not written, or may not be: what a node runs that should report, is not
// proven dead and is silent is unknown.
func isUnresolved(out *reconciler.Result) bool {
	return out.ToRepair > 0 || !view.NewRecoverReport(out).IsAllWritten() || out.UnknownLack() != "" ||
		!out.Restore.Complete() || slices.Contains(slices.Collect(maps.Values(out.Nodes)), facts.NodeNoFreshReport)
}
