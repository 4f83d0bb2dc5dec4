package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
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

Exit code 0: nothing is stale and there are no findings, or nothing that --fail-on
names; 1: there is something; 2: the cluster could not be read.
` + snapshotHelp,
		Example: `  ip-reconcile check
  ip-reconcile check --all
  ip-reconcile check -o json | jq '.allocations[] | select(.verdict == "Stale")'
  ip-reconcile check --snapshot ./must-gather --now 2026-11-20T10:00:00Z`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := o.reconciler(c.Context(), std)
			if err != nil {
				return err
			}
			j, err := r.Check(c.Context())
			if err != nil {
				return err
			}
			return o.tell(c.Context(), std, report.OfCheck(j, r.Plan(c.Context(), j), o.asked.filter))
		},
	}
	o.add(c.Flags(), "warn")
	o.asked.add(c.Flags())
	o.AddConfirmAfter(c.Flags())
	o.completions(c)
	return c
}

func newRun(std streams) *cobra.Command {
	o := &options{component: "run"}
	var dryRun, massRelease bool
	var maxWait time.Duration
	c := &cobra.Command{
		Use:   "run",
		Short: "Make one pass: judge every address, free the stale ones",
		Long: `Make one pass: judge every allocation and reservation and free those that are
Stale. What is proven stale is freed at once; what is not confirmed is freed when
it has been judged so in every pass for --confirm-after, for which run waits.
Each write is made under whereabouts' own Lease, after a second check of fresh objects,
and fails if anything changed in between.

Exit code 0: nothing stale is left; 1: something is, and the output says why;
2: the cluster could not be read.
` + snapshotHelp + `
With --snapshot it writes nothing and prints the patches and deletes that it would send.`,
		Example: `  ip-reconcile run --dry-run
  ip-reconcile run
  ip-reconcile run --confirm-after 1h --repair
  ip-reconcile run -o json | jq .released`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dry := dryRun || o.snapshot != ""
			o.writes = !dry
			r, err := o.reconciler(c.Context(), std)
			if err != nil {
				return err
			}
			r.Options.DryRun, r.Options.AllowMassRelease, r.Options.MaxWait = dry, massRelease, maxWait
			if f := o.asked.filter; !f.IsZero() {
				r.Options.Only, r.Options.OnlyFindings = f.Item, f.Finding
			}
			out, err := r.Run(c.Context())
			if err != nil {
				return err
			}
			rep := report.OfRun(out, dry, o.asked.filter)
			if dry && !dryRun {
				if rep.Requests, err = report.RequestsOf(out); err != nil {
					return err
				}
			}
			return o.tell(c.Context(), std, rep)
		},
	}
	o.add(c.Flags(), "info")
	f := c.Flags()
	o.asked.add(f)
	o.AddWriting(f)
	f.BoolVar(&dryRun, "dry-run", false, "print what would be freed, and write nothing")
	f.DurationVar(&maxWait, "max-wait", 0, "how long to wait at most for what is not confirmed; the next run begins again (0: as long as it takes)")
	f.BoolVar(&massRelease, "allow-mass-release", false, "free more than half of all allocations within an hour, unconfirmed ones included")
	o.completions(c)
	return c
}

// tell prints what check and run have to tell, and ends with errLeft where there is
// something that makes them fail. That something is not there is said last: of others
// something may have been released.
func (o *options) tell(ctx context.Context, std streams, r *report.Report) error {
	err := o.print(std, answer{
		notes: r.Notes(),
		document: func() any {
			if r.Ran {
				return document.OfRun(o.header(ctx, document.KindRun, r.Observation), r)
			}
			return document.OfCheck(o.header(ctx, document.KindCheck, r.Observation), r)
		},
		names: func() []string { return r.Addresses(o.all) },
		screen: func(s *screen.Screen) {
			s.All = o.all
			s.Report(r)
		},
	})
	if err == nil {
		err = o.asked.notThere(r.Observation)
	}
	if err == nil && o.asked.fails.Fails(r) {
		return errLeft
	}
	return err
}
