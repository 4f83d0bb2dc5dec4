package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func newRecover(std streams) *cobra.Command {
	o := &options{streams: std, component: "recover"}
	c := &cobra.Command{
		Use:   "recover",
		Short: "After an etcd restore: write the allocations that running pods lack; releases nothing",
		Long: `Write the allocations and reservations of all addresses that running sandboxes carry, as
the node agents report them, and correct those that name an ended sandbox. recover
releases nothing. After an etcd restore 'serve' does the same by itself; recover is for
a cluster without 'serve'.

Without --yes recover prints what it would write, and writes nothing. With --yes it holds
whereabouts' own Leases meanwhile, for 90 seconds at most. ADDs and DELs wait until all
nodes have renewed their reports, some 20 seconds, and everything is written. What cannot
be written by then is tried again a minute later. Each write tests what it replaces.

Exit code 0: everything is written; 1: something is not, and the output says why;
2: the cluster could not be read, or no agent reports.
` + snapshotHelp,
		Example: `  ip-reconcile recover
  ip-reconcile recover --yes
  ip-reconcile recover --snapshot ./must-gather -o yaml`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.writes = o.yes; o.yes && o.snapshot != "" {
				return fmt.Errorf("--snapshot %s: recover does not write to a snapshot: leave out --yes", o.snapshot)
			}
			r, err := o.reconciler(c.Context())
			if err != nil {
				return err
			}
			if o.trail != nil {
				defer o.trail.Start()()
			}
			out, err := underFence(c.Context(), r, o.writes)
			if err != nil {
				return err
			}
			return o.print(c.Context(), answer{
				kind: document.KindRecovery, at: out.Observation.Now, notes: out.Notes(),
				isUnresolved: out.ToRepair+len(out.Unrepaired) > 0,
				document:     func(h document.Header) any { return document.OfRecovery(h, out) },
				names: func() []string {
					return document.Rows(out.Writes(), func(w reconciler.WriteRow) string { return w.IP })
				},
				screen: func(s *screen.Screen) { s.Recovery(out, o.writes) },
			})
		},
	}
	o.add(c.Flags(), "warn")
	f := c.Flags()
	f.BoolVar(&o.yes, "yes", false, "write; without this flag recover prints what it would write")
	o.AddMassRepair(f)
	o.AddWriting(f)
	return c
}

// underFence recovers while the fence holds whereabouts' Leases of all pools. A dry run needs no fence.
func underFence(ctx context.Context, r *reconciler.Reconciler, writes bool) (*reconciler.Result, error) {
	cluster, isLive := r.Writer.(*kube.Cluster)
	if !isLive || !writes || cluster.WithoutLease {
		return r.Recover(ctx)
	}
	j, err := r.Check(ctx)
	if err != nil {
		return nil, err
	}
	fence := cluster.Fence()
	fence.Lead()
	defer fence.Lower(ctx)
	fence.Raise(ippool.LeasesOf(j.Observation.Pools), "")
	stands := func(context.Context) (bool, error) { return !fence.Since().IsZero(), nil }
	const raiseFor = 20 * time.Second // ADDs and DELs that hold a Lease may take so long to release it
	if wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, raiseFor, true, stands) == nil {
		r.Fence = fence
	} else if ctx.Err() == nil {
		r.Log.Warn("Could not take whereabouts' Leases; ADDs and DELs go on meanwhile", "missing", fence.State().Missing)
	}
	return r.Recover(ctx)
}
