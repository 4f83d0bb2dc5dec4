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
		Short: "Say how full each pool is, and who waits for an address; never writes",
		Long: `Print for each pool how many addresses whereabouts would assign from it, how many
are taken and free, how many of the entries are stale or held, and how many pods
cannot start because it is full. With the name, the range or an address of a pool:
who has its entries, which addresses are free, when what is stale will be
released, and which pods wait. It never writes.

USABLE is by the NetworkAttachmentDefinitions: range, range_start, range_end, exclude,
ipRanges and node_slice_size. It is "?" where no definition of the pool can be
read; bounds in whereabouts' own files on the nodes are not known.

Exit code 0: it is printed; 2: the cluster could not be read, or there is no such pool.
` + snapshotHelp,
		Example: `  ip-reconcile pools
  ip-reconcile pools 10.0.0.0/24
  ip-reconcile pools kube-system/10.0.0.0-24 -o json | jq '.pools[].waiting'
  ip-reconcile pools --snapshot ./must-gather`,
		Args: cobra.MaximumNArgs(1),
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
	var only report.Filter // what stands against releases in other pools is no answer
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
	a := answer{notes: append(rep.Notes(), all.Notes...), names: func() []string { return names }}
	text := document.Header{ObservedAt: j.Observation.Now}
	if len(args) == 0 {
		a.document = func() any {
			return document.OfPools(o.header(c.Context(), document.KindPools, j.Observation), rep, all)
		}
		a.screen = func(s *screen.Screen) { s.Pools(document.OfPools(text, rep, all)) }
	} else {
		a.document = func() any {
			return document.OfPoolDetails(o.header(c.Context(), document.KindPool, j.Observation), rep, all, pools)
		}
		a.screen = func(s *screen.Screen) { s.PoolDetails(document.OfPoolDetails(text, rep, all, pools)) }
	}
	return o.print(std, a)
}
