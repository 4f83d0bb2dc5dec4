package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// retireOptions are what a person asks to retire.
type retireOptions struct {
	options
	lostSlices bool
	// mayLack is true if the selected node slices may not be all.
	mayLack bool
}

func newRetire(std streams) *cobra.Command {
	o := &retireOptions{options: options{streams: std, component: "retire", writes: true}}
	o.ByHand = true
	c := &cobra.Command{
		Use:   "retire POOL ... | --slices-without-node",
		Short: "Delete pools that nothing uses and no definition leads to",
		Long: `Print what stands against the deletion of pools; ask; release what is stale in those that
nothing stands against, as 'release' does; and delete them once they are empty.

retire keeps a pool while an address of it is in use or held, while a pod carries one that
no pool records, while a NetworkAttachmentDefinition leads to it, since the next ADD would
create it again, and while any of that is unknown: a definition that cannot be read, nodes,
reports. It prints what remains, and which workloads must move. A network that only a CNI
configuration file on nodes defines is not known: do not retire its pool.

A pool must have no obstacle for two minutes, or for --confirm-after if that is shorter, so
that an ADD that began before has ended. It is deleted under whereabouts' own Leases, after
a second check, by its UID and resourceVersion: an ADD in between keeps its allocation, and
the pool.

--slices-without-node selects the node slices whose Nodes are gone for good, as the finding
SliceWithoutNode names them. The Node must be missing for 40 seconds at least.

retire asks. --yes is the answer in advance. Without --yes and without a terminal to ask on,
retire does nothing: exit code 2. --dry-run and --snapshot write nothing.

Exit code 0: the pools are deleted, or would be; 1: a pool is kept, and the output says why,
or it is unknown which slices have no node; 2: the cluster could not be read, has no such
pool, or forbids it.
`,
		Example: `  ip-reconcile pools retire 10.0.0.0-24 --dry-run
  ip-reconcile pools retire kube-system/10.0.0.0-24
  ip-reconcile pools retire --slices-without-node --yes`,
		RunE: func(c *cobra.Command, args []string) error { return o.retire(c.Context(), args) },
	}
	f := c.Flags()
	o.addWithoutNode(f, "warn")
	o.addSnapshot(f)
	o.AddConfirmAfter(f)
	o.AddWriting(f)
	f.BoolVar(&o.lostSlices, "slices-without-node", false, "retire the node slices whose Nodes are gone for good")
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	o.addDryRun(f)
	f.Lookup("dry-run").Usage = "none or client; client prints what would be deleted, and writes nothing"
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return matching(typed, o.namesInTime(c.Context(), "").poolNames()), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

func (o *retireOptions) retire(ctx context.Context, args []string) error {
	if (len(args) > 0) == o.lostSlices {
		return fmt.Errorf("pools retire takes either pools or --slices-without-node; see '%s pools retire --help'",
			commandName())
	}
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	checked, err := r.Check(ctx)
	if err != nil {
		return err
	}
	a := checked.Assessment
	var pools []*ippool.Pool
	if o.lostSlices {
		pools = lostSlices(a)
		switch o.mayLack = slices.Contains(findings.UnknownKinds(a.Observation), findings.SliceWithoutNode); {
		case o.mayLack:
			fmt.Fprintln(o.err, "Which pools are slices of nodes that are gone for good is unknown: not everything could be "+
				"read.")
		case len(pools) == 0:
			fmt.Fprintln(o.err, "No pool is the slice of a node that is gone for good.")
		}
	} else if pools, err = namedPools(a, args); err != nil {
		return err
	}
	planned := r.PlanRetirement(a, pools)
	before := view.NewRetireReport(view.PlannedResult(checked, r.Plan(ctx, a)), planned, o.DryRun)
	if o.trail != nil {
		defer o.trail.Start()()
	}
	can, pools := reconciler.CanBeRetired(planned)
	if o.DryRun || len(can) == 0 {
		if cluster != nil && len(can) > 0 {
			if err := o.allow(ctx, cluster, can); err != nil {
				fmt.Fprintf(o.err, "Without --dry-run: %s\n", err)
			}
		}
		r.DeclineRetirements(a, planned)
		return o.print(ctx, o.retireAnswer(before))
	}
	if err := o.allow(ctx, cluster, can); err != nil {
		return err
	}
	if err := o.askToRetire(ctx, before, len(can)); err != nil {
		return err
	}
	r.DeclineRetirements(a, planned)
	printed := planfile.Of(leftoversOf(can))
	r.Options.Only = func(it *judge.Item) bool { return isAgreed(printed, it) }
	out, all, err := r.Retire(ctx, pools)
	if err != nil {
		return err
	}
	all = reconciler.WithoutOpen(planned, all)
	return o.print(ctx, o.retireAnswer(view.NewRetireReport(out, all, false)))
}

// askToRetire asks whether to delete n of the pools.
func (o *options) askToRetire(ctx context.Context, d *view.RetireReport, n int) error {
	if !o.asks() {
		return nil
	}
	return o.confirm(ctx, "delete "+screen.Count(n, "pool"), "Nothing was deleted.",
		answer{document: d, screen: func(s *screen.Screen) { s.Retire(d) }})
}

func (o *retireOptions) retireAnswer(d *view.RetireReport) answer {
	return answer{document: d, notes: d.Notes, names: d.Names, isUnresolved: d.Kept() || o.mayLack,
		screen: func(s *screen.Screen) { s.Retire(d) }}
}

// allow lets the cluster's sessions delete these pools, or returns why RBAC forbids it, before anything is written.
func (o *options) allow(ctx context.Context, cluster *kube.Cluster, all []*reconciler.Retirement) error {
	names := lists.Map(all, func(x *reconciler.Retirement) types.NamespacedName { return x.Pool.NamespacedName })
	if err := cluster.AllowRetirement(ctx, names); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	return nil
}

// leftoversOf are the stale items that are released before pools are deleted.
func leftoversOf(all []*reconciler.Retirement) (items []*judge.Item) {
	for _, x := range all {
		for _, o := range x.Against {
			if o.Kind == plan.ObstacleLeftover {
				items = append(items, o.Item)
			}
		}
	}
	return items
}

// namedPools are the pools of names or ranges, each once. A name that several have is an error.
func namedPools(a *findings.Assessment, names []string) (pools []*ippool.Pool, err error) {
	all := usage.Of(a)
	for _, name := range names {
		found := lists.Filter(all.Find(explain.NameOf(explain.Pool, name)), func(p *usage.Pool) bool {
			return strings.ContainsAny(name, "-/") || p.Name == name // an address is no name of a pool
		})
		switch refs := lists.Map(found, (*usage.Pool).Ref); {
		case len(found) == 0:
			return nil, fmt.Errorf("no pool has the name or range %q: %s", name, all.Known())
		case len(found) > 1:
			return nil, fmt.Errorf("several pools have the name or range %q: give one of %s", name, view.AtMost(refs, 10))
		case !slices.Contains(pools, found[0].Pool):
			pools = append(pools, found[0].Pool)
		}
	}
	return pools, nil
}

// lostSlices are the node slices whose nodes are gone for good.
func lostSlices(a *findings.Assessment) (pools []*ippool.Pool) {
	bound := a.Facts().BoundNodes()
	for _, p := range a.Facts().Pools() {
		if len(a.Facts().LostNodesOf(p, bound)) > 0 {
			pools = append(pools, p.Pool)
		}
	}
	return pools
}
