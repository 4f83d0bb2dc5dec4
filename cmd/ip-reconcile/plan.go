package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func newPlan(std streams) *cobra.Command {
	o := &options{component: "plan"}
	o.ConfirmAfter = clusterflags.ConfirmAfter
	c := &cobra.Command{
		Use:   "plan",
		Short: "Plan releases for review, as a file for 'apply'; read-only",
		Long: `Judge every allocation and reservation, and list those that 'apply' may release, proven
and unconfirmed, each with its evidence. With -o NAME.json or -o NAME.yaml plan also
writes the list to that file. plan is read-only.

A reviewer may delete items from the file, and must not edit any. Each item has a digest
that binds it to the plan. The digest finds mistakes; it is no signature.

Exit code 0: planned, even if nothing is to be released; 2: the cluster could not be read.`,
		Example: `  ip-reconcile plan -o plan.json
  ip-reconcile plan --pool 10.0.0.0/24 -o plan.yaml
  ip-reconcile plan -o json | jq -r '.items[] | [.ip, .podRef, .message] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.plan(c, std) },
	}
	f := c.Flags()
	o.addLive(f, "warn")
	o.selection.addFilters(f)
	f.Lookup("output").Usage += ", or the name of a file to write: NAME.json, NAME.yaml"
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false,
		"plan without the breaker, which refuses more than half of all allocations within an hour")
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
	r.Writer = nil // the account that plans need not be the one that may release
	if f := o.selection.filter; !f.IsZero() {
		r.Options.Only = f.Item
	}
	j, err := r.Check(ctx)
	if err != nil {
		return err
	}
	if err := o.selection.checkNames(j.Observation); err != nil {
		return err
	}
	if o.clusterUID(ctx) == "" {
		return planfile.ErrNoUID
	}
	selected := r.Plan(ctx, j)
	planfile.Select(selected)
	rep := report.OfCheck(j, selected, o.selection.filter)
	a := answer{
		kind: document.KindPlan, at: j.Observation.Now, notes: rep.Notes(),
		document: func(h document.Header) any { return planfile.New(h, selected.Release) },
		names:    func() []string { return addresses(selected.Release) },
		screen: func(s *screen.Screen) {
			s.Plan(rep, planfile.New(document.Header{ObservedAt: j.Observation.Now}, selected.Release))
			if file != "" {
				s.Line("\nReview the plan, delete items that must stay, then run: %s apply %s", commandName(), file)
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

func addresses(items []*judge.Item) []string {
	texts := document.Rows(items, (*judge.Item).Text)
	return report.Only(texts, func(text string) bool { return text != "" })
}

func newApply(std streams) *cobra.Command {
	o := &options{component: "apply", writes: true}
	o.ConfirmAfter = clusterflags.ConfirmAfter
	var maxAge time.Duration
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Release what a plan lists and what is still stale by the same evidence",
		Long: `Judge the cluster again, and release the items of a plan that are still Stale by the same
evidence. apply may release less than the plan, and never more. For each item that is not
released it prints what has changed. Without node agents it waits for no confirmation;
with them an unconfirmed item takes a minute. FILE is what 'plan' has written, or - for
stdin.

apply refuses a plan of another cluster, one that is older than --max-age, and one with an
item that was edited or added. Items may be deleted.

apply may be killed and run again: what is already released counts as done.

Exit code 0: nothing of the plan is recorded any more; 1: an item is not released, and the
output says why; 2: the plan is refused, or the cluster could not be read.`,
		Example: `  ip-reconcile plan -o plan.json
  ip-reconcile apply plan.json
  ip-reconcile apply plan.json -o json | jq '.items[] | select(.outcome == "NotReleased")'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("apply takes one file, got %d arguments; see '%s --help'", len(args), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.apply(c, std, args[0], maxAge) },
	}
	f := c.Flags()
	o.addLive(f, "info")
	o.AddWithout(f)
	o.AddAudit(f)
	f.DurationVar(&maxAge, "max-age", 24*time.Hour, "refuse a plan that is older")
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false,
		"release without the breaker, which refuses more than half of all allocations within an hour")
	o.completions(c)
	return c
}

func (o *options) apply(c *cobra.Command, std streams, file string, maxAge time.Duration) error {
	ctx := c.Context()
	p, err := readPlan(file)
	if err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return err
	}
	r.PassStore = nil // a person's pass
	j, err := r.Check(ctx)
	if err != nil {
		return err
	}
	if err := p.Check(o.clusterUID(ctx), j.Observation.Now, maxAge); err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	r.Options.Only, r.Options.ByHand = p.Allows, true
	defer o.keepHistory()()
	out, err := r.Run(ctx)
	if err != nil {
		return err
	}
	rep := report.OfRun(out, false, report.Filter{})
	d := document.OfApplication(document.Header{ObservedAt: out.Observation.Now}, rep, &p.Plan, p.Outcomes(out))
	err = o.print(ctx, std, answer{
		kind: document.KindApplication, at: out.Observation.Now, notes: rep.Notes(),
		document: func(h document.Header) any {
			d.Header = h
			return d
		},
		names:  func() []string { return addresses(out.Released) },
		screen: func(s *screen.Screen) { s.Application(rep, d) },
	})
	if err == nil && len(d.Rows(document.NotReleased)) > 0 {
		return errUnresolved
	}
	return err
}

func readPlan(file string) (*planfile.File, error) {
	text, err := []byte(nil), error(nil)
	if file == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	return planfile.Read(text)
}
