package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

const snapshotHelp = `
A snapshot is a must-gather, a folder of YAML or JSON files, a .tar or .tgz of one, a
single file, or - for stdin. kubectl writes one:
  kubectl get ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io,pods,nodes,net-attach-def -A -o yaml > dir/cluster.yaml
Where node agents run, add sandboxreports.ip-reconcile.dev and their Leases.`

const failOnHelp = `
Exit code 0: nothing that --fail-on names; 1: something that --fail-on names; 2: the
cluster could not be read.
`

func newCheck(std streams) *cobra.Command {
	o := &options{component: "check"}
	c := &cobra.Command{
		Use:   "check",
		Short: "Judge every address and print the verdicts; read-only",
		Long: `Judge every allocation and reservation and print the verdicts. What needs attention
comes first. check is read-only.
` + failOnHelp + snapshotHelp,
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
			return o.printReport(c.Context(), std, report.OfCheck(j, r.Plan(c.Context(), j), o.selection.filter))
		},
	}
	o.add(c.Flags(), "warn")
	o.selection.add(c.Flags(), "Stale and every finding")
	o.AddConfirmAfter(c.Flags())
	o.completions(c)
	return c
}

func newRun(std streams) *cobra.Command {
	o := &options{component: "run"}
	var dryRun string
	var massRelease, provenOnly, yes bool
	var maxWait time.Duration
	c := &cobra.Command{
		Use:   "run",
		Short: "Judge every address and release the stale ones, once",
		Long: `Judge every allocation and reservation, and release those that are Stale. run releases
a proven item at once. It releases an unconfirmed item once every pass for
--confirm-after agrees, and waits for that.

run makes each write under whereabouts' own Lease, after a second check of fresh objects.
The write fails if anything changed in between. With --snapshot or --dry-run it writes
nothing. With --snapshot it also prints the patches and deletes that it would send.

On a terminal run prints what it will release, and asks, except with --yes.
` + failOnHelp + snapshotHelp,
		Example: `  ip-reconcile run --dry-run
  ip-reconcile run
  ip-reconcile run --confirm-after 1h --repair
  ip-reconcile run -o json | jq .released`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			isDry, err := parseDryRun(dryRun)
			if err != nil {
				return err
			}
			dry := isDry || o.snapshot != ""
			o.writes = !dry
			r, err := o.reconciler(c.Context(), std)
			if err != nil {
				return err
			}
			r.Options.DryRun, r.Options.AllowMassRelease, r.Options.MaxWait = dry, massRelease, maxWait
			o.selection.filter.ProvenOnly = provenOnly
			if f := o.selection.filter; !f.IsZero() {
				r.Options.Only, r.Options.OnlyFindings = f.Item, f.Finding
			}
			if std.in != nil && !dry && !yes {
				if isYes, err := o.mayRun(c.Context(), std, r); err != nil || !isYes {
					return err
				}
			}
			defer o.keepHistory()()
			out, err := r.Run(c.Context())
			if err != nil {
				return err
			}
			rep := report.OfRun(out, dry, o.selection.filter)
			if dry && !isDry {
				if rep.Requests, err = report.RequestsOf(out); err != nil {
					return err
				}
			}
			return o.printReport(c.Context(), std, rep)
		},
	}
	o.add(c.Flags(), "info")
	f := c.Flags()
	o.selection.add(f, "every Stale item that is not released")
	o.AddWriting(f)
	addDryRun(f, &dryRun)
	f.BoolVar(&provenOnly, "proven-only", false, "release proven items only, which wait for no confirmation")
	f.BoolVar(&yes, "yes", false, "on a terminal, do not ask before releases")
	f.DurationVar(&maxWait, "max-wait", 0, "how long to wait at most for confirmations; 0: until nothing is unconfirmed")
	f.BoolVar(&massRelease, "allow-mass-release", false, massReleaseHelp)
	o.completions(c)
	return c
}

// parseDryRun parses the value of --dry-run. As for kubectl, the flag was a boolean once.
func parseDryRun(text string) (isDry bool, err error) {
	isDry, isKnown := map[string]bool{"none": false, "false": false, "client": true, "true": true}[text]
	if !isKnown {
		err = fmt.Errorf("--dry-run %q: must be none or client", text)
	}
	return isDry, err
}

func addDryRun(f *pflag.FlagSet, dryRun *string) {
	f.StringVar(dryRun, "dry-run", "none", "none or client; client prints what would be released, and writes nothing")
	f.Lookup("dry-run").NoOptDefVal = "client"
}

// mayRun prints on a terminal what a run will do, and asks. It does not ask about nothing.
func (o *options) mayRun(ctx context.Context, std streams, r *reconciler.Reconciler) (isYes bool, err error) {
	out, err := dryRunOf(ctx, r)
	if err != nil {
		return false, err
	}
	rep := report.OfRun(out, true, o.selection.filter)
	if len(rep.Left)+len(rep.Repaired) == 0 {
		return true, nil
	}
	text := o.renderScreen(answer{at: out.Observation.Now, screen: func(s *screen.Screen) { s.Report(rep) }})
	_, _ = std.err.Write(text) // whoever does not see it says no
	if !std.ask(ctx, fmt.Sprintf("\nRelease %s?", screen.Count(len(rep.Left), "stale item"))) {
		return false, errUnresolved
	}
	return true, nil
}

// dryRunOf makes a run that writes nothing. The verdicts that it reaches begin to stand.
func dryRunOf(ctx context.Context, r *reconciler.Reconciler) (*reconciler.Result, error) {
	dry := *r
	dry.Options.DryRun, dry.Audit = true, nil
	return dry.Run(ctx)
}

// printReport prints the report of check or run. It returns errUnresolved where the report has something that makes the
// command fail. A filter that names nothing is an error at the end, since a run may have released other items.
func (o *options) printReport(ctx context.Context, std streams, r *report.Report) error {
	err := o.printRun(ctx, std, r)
	if err == nil {
		err = o.selection.checkNames(r.Observation)
	}
	if err == nil && o.selection.fails.Fails(r) {
		return errUnresolved
	}
	return err
}

func (o *options) printRun(ctx context.Context, std streams, r *report.Report) error {
	kind := document.KindCheck
	if r.Ran {
		kind = document.KindRun
	}
	return o.print(ctx, std, answer{
		kind: kind, at: r.Observation.Now, notes: r.Notes(),
		document: func(h document.Header) any {
			if r.Ran {
				return document.OfRun(h, r)
			}
			return document.OfCheck(h, r)
		},
		names:  func() []string { return r.Addresses(o.all) },
		screen: func(s *screen.Screen) { s.Report(r) },
	})
}
