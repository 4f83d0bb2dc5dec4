package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const massReleaseHelp = "release without the breaker, which refuses more than half of all allocations within an hour"

func newPlan(std streams) *cobra.Command {
	o := &options{component: "plan"}
	o.ByHand = true
	c := &cobra.Command{
		Use:   "plan",
		Short: "Plan releases for review, as a file for 'apply'; read-only",
		Long: `Print what 'apply' may release, proven and unconfirmed. With -o NAME.json or -o NAME.yaml
plan also writes that as a file, each item with its evidence. plan is read-only.

A reviewer may delete items of the file, and must not edit any. The digest of an item binds
it to its cluster and its plan: it finds mistakes, and is no signature.

Exit code 0: planned, even if nothing is to be released; 2: the cluster could not be read.`,
		Example: `  ip-reconcile plan -o plan.json
  ip-reconcile plan --pool 10.0.0.0/24 -o plan.yaml
  ip-reconcile plan -o json | jq -r '.items[] | [.ip, .podRef, .message] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.plan(c, std) },
	}
	f := c.Flags()
	o.addLive(f, "warn")
	o.addMissingAfter(f)
	o.selection.addFilters(f)
	f.Lookup("output").Usage += ", or a file to write: NAME.json, NAME.yaml"
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, "plan to "+massReleaseHelp)
	o.completions(c)
	return c
}

func (o *options) plan(c *cobra.Command, std streams) error {
	ctx, file := c.Context(), ""
	if form := map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml"}[filepath.Ext(o.output)]; form != "" {
		file, o.output = o.output, form
	}
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return err
	}
	r.Writer, r.PassStore, r.Options.DryRun = nil, nil, true // whoever plans need not be allowed to release
	if f := o.selection.filter; !f.IsZero() {
		r.Options.Only = f.Item
	}
	out, err := r.Run(ctx)
	if err != nil {
		return err
	}
	if err := o.selection.checkNames(out.Observation); err != nil {
		return err
	}
	if o.clusterUID(ctx) == "" {
		return planfile.ErrNoUID
	}
	items := planfile.Select(out)
	rep := report.OfRun(out, true, o.selection.filter)
	a := answer{
		kind: document.KindPlan, at: out.Observation.Now, notes: rep.Notes(),
		document: func(h document.Header) any { return planfile.New(h, items) },
		names:    func() []string { return document.Rows(items, (*judge.Item).Text) },
		screen: func(s *screen.Screen) {
			if s.Report(rep); file != "" {
				s.Line("\nWrote %s to %s. Delete what must stay, then run:\n    %s", screen.Count(len(items), "item"), file,
					o.advisor(c.Flags()).OnCluster("ip-reconcile apply "+file))
			}
		},
	}
	if file != "" {
		text, err := o.render(ctx, a)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		o.output = "table"
	}
	return o.print(ctx, std, a)
}

func newApply(std streams) *cobra.Command {
	o := &options{component: "apply", writes: true}
	o.ByHand = true
	var maxAge time.Duration
	var yes bool
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Release what a plan lists and is still stale by the same evidence",
		Long: `Judge the cluster again, and release the items of a plan that are still Stale by the same
evidence, as run does. apply may release less than the plan has, and never more. It prints
what has changed on each item that is not released. FILE is what 'plan' has written. apply
waits for confirmations as 'release' does: for a minute at most, unless the pod is Pending.

apply refuses a plan of another cluster, an old one, and one with an item that was edited.
It may be killed and run again: what is already released counts as done.
On a terminal apply prints what it will release, and asks, except with --yes.

Exit code 0: nothing of the plan is recorded any more; 1: an item is not released; 2: the
plan is refused, or the cluster could not be read.`,
		Example: `  ip-reconcile plan -o plan.json
  ip-reconcile apply plan.json
  ip-reconcile apply plan.json -o json | jq '.failed[] | [.ip, .detail]'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.apply(c, std, args[0], maxAge, yes) },
	}
	f := c.Flags()
	o.addLive(f, "info")
	o.addMissingAfter(f)
	o.AddWithout(f)
	o.AddAudit(f)
	f.DurationVar(&maxAge, "max-age", 24*time.Hour, "refuse a plan that is older")
	f.BoolVar(&yes, "yes", false, "on a terminal, do not ask before releases")
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	o.completions(c)
	return c
}

func (o *options) apply(c *cobra.Command, std streams, file string, maxAge time.Duration, yes bool) error {
	ctx := c.Context()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p, err := planfile.Read(text)
	if err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return err
	}
	j, err := r.Check(ctx)
	if err != nil {
		return err
	}
	if err := p.Check(o.clusterUID(ctx), j.Observation.Now, maxAge); err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	o.selection.filter.IDs = p.IDs()
	r.PassStore, r.Options.Only = nil, p.Allows // status reports no pass of a person
	if std.in != nil && !yes {
		if isYes, err := o.mayRun(ctx, std, r); err != nil || !isYes {
			return err
		}
	}
	defer o.keepHistory()()
	out, err := r.Run(ctx)
	if err != nil {
		return err
	}
	p.Complete(out)
	return o.printReport(ctx, std, report.OfRun(out, false, o.selection.filter))
}
