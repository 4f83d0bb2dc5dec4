package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

const snapshotHelp = `
A snapshot is a folder of YAML or JSON files as kubectl writes them, a must-gather, an
archive (.tar, .tgz) of such a folder, one such file, or - for one on stdin:
  kubectl get ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io,pods,nodes,net-attach-def -A -o yaml > dir/cluster.yaml
Where node agents run, add sandboxreports.ip-reconcile.dev and their leases.`

func newCheck(std streams) *cobra.Command {
	o := &options{component: "check"}
	c := &cobra.Command{
		Use:   "check",
		Short: "Judge every address and print the verdicts; never writes",
		Long: `Judge every allocation and reservation and print the verdicts, what needs
attention first. It never writes.

Exit code 0: nothing is stale and there are no findings; 1: there is something;
2: the cluster could not be looked at.
` + snapshotHelp,
		Example: `  ip-reconcile check
  ip-reconcile check --all
  ip-reconcile check -o json | jq '.allocations[] | select(.verdict == "Stale")'
  ip-reconcile check --snapshot ./must-gather --now 2026-11-20T10:00:00Z`,
		Args: flags.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := o.reconciler(std)
			if err != nil {
				return err
			}
			defer showProgress(std, r)()
			j, err := r.Check(c.Context())
			if err != nil {
				return err
			}
			if err := o.print(std, j.Notes(), func() any { return j.Document() }, func(t *table) { t.judgement(j, o.all) }); err != nil {
				return err
			}
			if j.Stale() > 0 || len(j.Findings) > 0 {
				return errLeft
			}
			return nil
		},
	}
	o.add(c.Flags(), "warn")
	o.addFilter(c.Flags())
	o.completions(c)
	return c
}

func newRun(std streams) *cobra.Command {
	o := &options{component: "run"}
	var dryRun, massRelease bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Make one pass: judge every address, free the stale ones",
		Long: `Make one pass: judge every allocation and reservation and free those that are
Stale. What is proven stale is freed at once; what is not confirmed is freed when
it has been judged so in every pass for --confirm-after, for which run waits.
Each write is made under whereabouts' own Lease, after a second check of fresh objects,
and fails if anything changed in between.

Exit code 0: nothing stale is left; 1: something is, and the output says why;
2: the cluster could not be looked at.
` + snapshotHelp + `
With --snapshot the same patches are applied to the files.`,
		Example: `  ip-reconcile run --dry-run
  ip-reconcile run
  ip-reconcile run --confirm-after 1h --repair
  ip-reconcile run -o json | jq .released`,
		Args: flags.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := o.reconciler(std)
			if err != nil {
				return err
			}
			r.Options.DryRun, r.Options.AllowMassRelease = dryRun, massRelease
			if err := o.checkWritable(r); err != nil && !dryRun {
				return err
			}
			stop := showProgress(std, r)
			out, err := r.Run(c.Context())
			stop()
			if err != nil {
				return err
			}
			if err := o.print(std, out.Notes(), func() any { return out.Document() }, func(t *table) { t.result(out, o.all) }); err != nil {
				return err
			}
			if out.Left() > 0 {
				return errLeft
			}
			return nil
		},
	}
	o.add(c.Flags(), "info")
	o.addFilter(c.Flags())
	o.completions(c)
	f := c.Flags()
	o.AddWriting(f)
	f.BoolVar(&dryRun, "dry-run", false, "print what would be freed, and write nothing")
	f.BoolVar(&massRelease, "allow-mass-release", false, "free more than half of all allocations within an hour, unconfirmed ones included")
	return c
}

func newExplain(std streams) *cobra.Command {
	o := &options{component: "explain"}
	c := &cobra.Command{
		Use:   "explain IP",
		Short: "Say what is known of one address, and the rule behind its verdict",
		Long: `Print the evidence and the rule behind the verdict on one address, in every pool
and network that records it.

Exit code 0: it is recorded; 1: no pool records it; 2: the cluster could not be
looked at.
` + snapshotHelp,
		Example: `  ip-reconcile explain 10.0.0.7
  ip-reconcile explain 2001:db8::7 --snapshot ./must-gather`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain takes one IP address, got %d arguments; see '%s --help'", len(args), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			addr, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("%q is not an IP address", args[0])
			}
			r, err := o.reconciler(std)
			if err != nil {
				return err
			}
			defer showProgress(std, r)()
			j, err := r.Check(c.Context())
			if err != nil {
				return err
			}
			j = j.About(addr.Unmap())
			if err := o.print(std, j.Notes(), func() any { return j.Document() }, func(t *table) { t.explain(addr.Unmap(), j) }); err != nil {
				return err
			}
			if len(j.Allocations)+len(j.Reservations) == 0 {
				return errLeft
			}
			return nil
		},
	}
	o.add(c.Flags(), "warn")
	o.addFilter(c.Flags())
	o.completions(c)
	return c
}

// showProgress shows on a terminal what is being done, until stop is called.
func showProgress(std streams, r *reconciler.Reconciler) (stop func()) {
	p := &progress{w: std.err}
	if !isTerminal(std.err) {
		return func() {}
	}
	r.Progress = p.say
	return p.start()
}
