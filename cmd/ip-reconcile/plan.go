package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func newPlan(std streams) *cobra.Command {
	o := &options{streams: std, component: "plan"}
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
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return o.plan(c.Context()) },
	}
	f := c.Flags()
	o.addLive(f, "warn")
	o.addMissingAfter(f)
	o.selection.addFilters(f)
	f.Lookup("output").Usage += ", or a file to write: NAME.json, NAME.yaml"
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, "plan to "+massReleaseHelp)
	return c
}

func (o *options) plan(ctx context.Context) error {
	file := ""
	if form := map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml"}[filepath.Ext(o.output)]; form != "" {
		file, o.output = o.output, form
	}
	r, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	r.Writer, r.Options.Only = nil, o.filter.Item // whoever plans need not be allowed to release
	out, err := o.act(ctx, r, o.askToRun)
	if err == nil {
		err = o.checkNames(out.Observation)
	}
	if err != nil {
		return err
	}
	if o.clusterUID(ctx) == "" {
		return planfile.ErrNoUID
	}
	items := planfile.Select(out)
	rep := report.OfRun(out, true, o.filter)
	a := answer{
		kind: document.KindPlan, at: out.Observation.Now, notes: rep.Notes(),
		document: func(h document.Header) any {
			p := planfile.New(h, items)
			p.Limits = document.LimitsOf(out.Judgement)
			return p
		},
		names: func() []string { return document.Rows(items, (*judge.Item).Text) },
		screen: func(s *screen.Screen) {
			if s.Report(rep); file != "" {
				s.Line("\nWrote %s to %s. Delete what must stay, then run:\n    %s", screen.Count(len(items), "item"), file,
					o.advisor().OnCluster("ip-reconcile apply "+file))
			}
		},
	}
	if file != "" {
		text, err := o.render(ctx, a)
		if err == nil {
			err = create(file, func(w io.Writer) error { _, err := w.Write(text); return err })
		}
		if err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		o.output = "table"
	}
	return o.print(ctx, a)
}

func newApply(std streams) *cobra.Command {
	o := &options{streams: std, component: "apply", writes: true}
	o.ByHand = true
	var maxAge time.Duration
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
		RunE: func(c *cobra.Command, args []string) error { return o.apply(c.Context(), args[0], maxAge) },
	}
	f := c.Flags()
	o.addLive(f, "info")
	o.addMissingAfter(f)
	o.AddWriting(f)
	f.DurationVar(&maxAge, "max-age", 24*time.Hour, "refuse a plan that is older")
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	return c
}

func (o *options) apply(ctx context.Context, file string, maxAge time.Duration) error {
	p, err := planfile.ReadFile(file)
	if err != nil {
		return err
	}
	r, j, err := o.judge(ctx)
	if err != nil {
		return err
	}
	if err := p.Check(o.clusterUID(ctx), j.Observation.Now, maxAge); err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	o.filter.Has, r.Options.Only = p.Has, p.Allows
	out, err := o.act(ctx, r, o.askToRun)
	if err != nil {
		return err
	}
	p.Complete(out)
	return o.printReport(ctx, report.OfRun(out, false, o.filter))
}
