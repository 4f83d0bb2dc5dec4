package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func newPools(std streams) *cobra.Command {
	o := &options{component: "pools"}
	c := &cobra.Command{
		Use:   "pools [NAME | RANGE | ADDRESS]",
		Short: "Print how full each pool is and which pods wait for an address; read-only",
		Long: `Print for each pool how many addresses whereabouts can assign from it, how many are used
and free, how many allocations are stale or held, and how many pods cannot start because
the pool is full. For one pool, named by its name, its range or an address in it: who has
its allocations, which addresses are free, when stale ones are released, and which pods
wait. pools is read-only.

USABLE follows the NetworkAttachmentDefinitions: range, range_start, range_end, exclude,
ipRanges and node_slice_size. It is "?" where no definition of the pool can be read.
Limits in whereabouts' own files on the nodes are unknown.

Exit code 0: the pools are printed; 2: the cluster could not be read, or has no such pool.
` + snapshotHelp,
		Example: `  ip-reconcile pools
  ip-reconcile pools 10.0.0.0/24
  ip-reconcile pools kube-system/10.0.0.0-24 -o json | jq '.pools[].waiting'
  ip-reconcile pools --snapshot ./must-gather`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("pools takes at most one name, range or address, got %d arguments; see '%s --help'",
					len(args), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return o.pools(c, std, args)
		},
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	o.completions(c)
	return c
}

func (o *options) pools(c *cobra.Command, std streams, args []string) error {
	r, err := o.reconciler(c.Context(), std)
	if err != nil {
		return err
	}
	j, err := r.Check(c.Context())
	if err != nil {
		return err
	}
	all := usage.Of(j)
	pools := all.All
	var only report.Filter // of one pool: gates against releases in other pools are no answer
	if len(args) > 0 {
		if pools = all.Find(args[0]); len(pools) == 0 {
			return fmt.Errorf("no pool has the name or range %q, or this address in its range: %s", args[0], all.Known())
		}
	}
	names := make([]string, 0, len(pools))
	for _, p := range pools {
		names = append(names, p.Ref())
	}
	if len(args) > 0 {
		only.Pools = names
	}
	rep := report.OfCheck(j, r.Plan(c.Context(), j), only)
	a := answer{
		kind: document.KindPools, at: j.Observation.Now,
		notes: append(rep.Notes(), all.Notes...), names: func() []string { return names },
		document: func(h document.Header) any { return document.OfPools(h, rep, all) },
		screen:   func(s *screen.Screen) { s.Pools(document.OfPools(document.Header{}, rep, all)) },
	}
	if len(args) > 0 {
		text := document.Header{ObservedAt: j.Observation.Now}
		a.kind = document.KindPool
		a.document = func(h document.Header) any { return document.OfPoolDetails(h, rep, all, pools) }
		a.screen = func(s *screen.Screen) { s.PoolDetails(document.OfPoolDetails(text, rep, all, pools)) }
	}
	return o.print(c.Context(), std, a)
}
