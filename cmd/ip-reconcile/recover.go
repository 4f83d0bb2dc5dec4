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
	o := &options{component: "recover"}
	var yes bool
	c := &cobra.Command{
		Use:   "recover",
		Short: "After a restore of etcd: make pools and reservations say what runs",
		Long: `Write back the entries and reservations of all addresses that running sandboxes
carry, as the node agents report them, and rewrite those that name a sandbox of the
past. It frees nothing. It is what 'serve' does by itself after a restore of etcd,
for a cluster without it.

Without --yes it prints what it would write, and writes nothing. With it whereabouts'
own Leases are held meanwhile, for 90 seconds at most: ADDs and DELs wait until all
nodes have renewed their reports, some 20 seconds, and everything is written. What
cannot be settled by then is seen again a minute later. Each write tests what it
replaces.

Exit code 0: nothing is left to be written; 1: something is, and the output says why;
2: the cluster could not be read, or no agent reports.
` + snapshotHelp,
		Example: `  ip-reconcile recover
  ip-reconcile recover --yes
  ip-reconcile recover --snapshot ./must-gather -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.writes = yes; yes && o.snapshot != "" {
				return fmt.Errorf("--snapshot %s: nothing is written to a snapshot: leave out --yes", o.snapshot)
			}
			r, err := o.reconciler(c.Context(), std)
			if err != nil {
				return err
			}
			r.Options.DryRun = !yes
			out, err := underFence(c.Context(), r, yes)
			if err != nil {
				return err
			}
			err = o.print(std, answer{
				notes: out.Notes(),
				document: func() any {
					return document.OfRecovery(o.header(c.Context(), document.KindRecovery, out.Observation), out)
				},
				names: func() (addresses []string) {
					for _, r := range out.Writes() {
						addresses = append(addresses, r.IP)
					}
					return addresses
				},
				screen: func(s *screen.Screen) { s.Recovery(out, yes) },
			})
			if err != nil {
				return err
			}
			if out.ToRepair+len(out.Unrepaired) > 0 {
				return errLeft
			}
			return nil
		},
	}
	o.add(c.Flags(), "warn")
	o.completions(c)
	f := c.Flags()
	f.BoolVar(&yes, "yes", false, "write; without it only what would be written is printed")
	o.AddMassRepair(f)
	o.AddWithout(f)
	return c
}

// underFence recovers while whereabouts' Leases of all pools are held. Where nothing is written, none is needed.
func underFence(ctx context.Context, r *reconciler.Reconciler, writes bool) (*reconciler.Result, error) {
	cluster, live := r.Writer.(*kube.Cluster)
	if !live || !writes || cluster.WithoutLease {
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
	stands := func(context.Context) (bool, error) {
		_, standing := fence.Since()
		return standing, nil
	}
	if wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, raiseFor, true, stands) == nil {
		r.Fence = fence
	} else if ctx.Err() == nil {
		r.Log.Warn("whereabouts' Leases were not to be had, so that ADDs and DELs go on beside this", "missing", fence.State().Missing)
	}
	return r.Recover(ctx)
}

// raiseFor is how long ADDs and DELs that are under way may take to give the Leases back.
const raiseFor = 20 * time.Second
