package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// poolsOptions are the flags of pools.
type poolsOptions struct {
	options
	unused bool
	moved  string // the value of a flag that moved to pools check
}

func newPools(std streams) *cobra.Command {
	o := &poolsOptions{options: options{streams: std, component: "pools"}}
	c := &cobra.Command{
		Use:   "pools [NAME | RANGE | ADDRESS]",
		Short: "Print how full each pool is and which pods wait for an address; read-only",
		Long: `Print for each pool how many addresses whereabouts can assign from it, how many are used
and free, how many allocations are stale or held, and how many pods cannot start because
the pool is full. For one pool, named by its name, its range or an address in it: who has
its allocations, which addresses are free, when stale ones are released, and which pods
wait. pools is read-only.

USABLE is USED + BLOCKED + FREE. BLOCKED addresses have no allocation, but a reservation,
for example of another pool, or a pod that carries them. OUTSIDE are more allocations, of
addresses that are not usable. FILL is what is not free.

USABLE follows the NetworkAttachmentDefinitions: range, range_start, range_end, exclude,
ipRanges and node_slice_size. It is "?" where no definition of the pool can be read.
Limits in whereabouts' own files on the nodes are unknown.

pools check prints what another range of a pool would mean, before you edit its definition.

--unused prints the pools without allocations and reservations that no
NetworkAttachmentDefinition names, each with the command that retires it. It concludes
nothing while a definition cannot be read, or a kind of objects, such as reservations. It
does not observe a network that only a CNI configuration file on nodes defines: do not
delete its pool.

Exit code 0: the pools are printed; 2: the cluster could not be read, or has no such pool.

To see changes, run it under watch(1), as in the examples, or open the page of
'ip-reconcile ui'.
` + snapshotHelp,
		Example: `  ip-reconcile pools
  ip-reconcile pools 10.0.0.0/24
  ip-reconcile pools kube-system/10.0.0.0-24 -o json | jq '.pools[].waiting'
  ip-reconcile pools check 10.0.0.0-24 --new-range 10.0.0.0/25
  ip-reconcile pools --unused
  watch ip-reconcile pools
  ip-reconcile pools --snapshot ./must-gather`,
		RunE: func(c *cobra.Command, args []string) error { return o.pools(c.Context(), args) },
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	f := c.Flags()
	f.StringVar(&o.moved, "new-range", "", "see pools check")
	_ = f.MarkHidden("new-range") // an error only for a flag that does not exist
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return matching(typed, o.namesInTime(c.Context(), "").poolNames()), cobra.ShellCompDirectiveNoFileComp
	}
	f.BoolVar(&o.unused, "unused", false, "print the pools that nothing uses, and how to delete them")
	c.AddCommand(newPoolsCheck(std), newRetire(std))
	return c
}

func (o *poolsOptions) pools(ctx context.Context, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("pools takes at most one name, range or address, got %d arguments; see '%s pools --help'",
			len(args), commandName())
	case o.given.Changed("new-range"):
		return fmt.Errorf("pools has no --new-range: use '%s pools check POOL --new-range %s'", commandName(), o.moved)
	case o.unused && len(args) > 0:
		return errors.New("--unused is about all pools, and cannot be used with one")
	}
	r, checked, err := o.judge(ctx)
	if err != nil {
		return err
	}
	j := checked.Assessment
	all := usage.Of(j)
	if o.unused {
		all.KeepUnused(j)
	}
	pools := all.All
	if len(args) > 0 {
		pools = all.Find(args[0])
	}
	if len(args) > 0 && len(pools) == 0 {
		return fmt.Errorf("no pool has the name or range %q, or this address in its range: %s", args[0], all.Known())
	}
	out := view.PlannedResult(checked, r.Plan(ctx, j))
	a := answer{names: func() []string { return lists.Map(pools, (*usage.Pool).Ref) }}
	if len(args) == 0 {
		d := view.NewPoolsReport(out, all)
		for i := 0; o.unused && i < len(d.Pools); i++ {
			facts := advice.Facts{Names: map[string]string{"pool": d.Pools[i].Pool}}
			for _, step := range o.advisor().Steps("more", "unused pool", facts) {
				d.Pools[i].DeleteCommand = step.Command
			}
		}
		a.document, a.notes = d, d.Notes
		a.screen = func(s *screen.Screen) { s.Pools(d) }
	} else {
		d := view.NewPoolReport(out, all, pools)
		a.document, a.notes = d, d.Notes
		a.screen = func(s *screen.Screen) { s.Pool(d) }
	}
	return o.print(ctx, a)
}
