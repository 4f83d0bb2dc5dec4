package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// longestBecause bounds what each record of an override has.
const longestBecause = 500

// byHand is what a person asks to release.
type byHand struct {
	options
	pod, onNode, override string
	namespace             string
	subjects              []explain.Subject

	checked  *reconciler.Result
	selected []*judge.Item
	missing  []string // a sentence for each subject that names no item
}

func newRelease(std streams) *cobra.Command {
	o := &byHand{options: options{streams: std, component: "release", writes: true}}
	o.ByHand = true
	c := &cobra.Command{
		Use:   "release ADDRESS | NAMESPACE/POD | pool/NAME | CONTAINER_ID ... | --pod NAMESPACE/NAME | --on-node NAME",
		Short: "Release these addresses now, by hand, if they are stale",
		Long: `Print the evidence on addresses, on those of a pod, a pool or a sandbox, or on those of
sandboxes that run or may run on a node; ask; and release what is Stale, as run does: under whereabouts' own
Lease, after a second check, which tests the container ID that was printed.

release waits for no confirmation, since a person has read the evidence. With node agents
an unconfirmed item waits a minute: until then a report may be older than an ADD in
progress. release refuses what is Held or InUse, and prints what would change that. Where
the evidence changes after it was printed, release releases only what is proven.

--override REASON asserts that nothing uses an address that is Held for this very reason,
for lack of evidence: NoFreshReport, NodesUnknown, NodeUnreachable, NetworkStatusMissing,
or StuckTerminating without node agents. --because has your reason, for the log. The
assertion is about the nodes that are printed, and no others. If it is wrong, two pods get
one address. Nothing overrides a fresh report of the sandbox, another pod or sandbox with
the address, or a pause.

release asks. --yes is the answer in advance. Without --yes and without a terminal to ask
on, release does nothing: exit code 2. --dry-run and --snapshot write nothing.

Exit code 0: everything that was selected is released; 1: something is not, and the output
says why; 2: the cluster could not be read.`,
		Example: `  ip-reconcile release 10.0.0.20
  ip-reconcile release 10.0.0.20 10.0.0.21 --yes
  ip-reconcile release -n default web-0 web-1
  ip-reconcile release --on-node worker-1 --dry-run
  ip-reconcile release 10.0.0.20 --override NodeUnreachable --because "worker-1 was scrapped on Monday"`,
		Args: func(_ *cobra.Command, args []string) error { return o.parse(args) },
		RunE: func(c *cobra.Command, _ []string) error { return o.release(c.Context()) },
	}
	f := c.Flags()
	o.addWithoutNode(f, "warn")
	o.addSnapshot(f)
	o.AddConfirmAfter(f)
	o.AddWriting(f)
	f.StringVar(&o.pod, "pod", "", "release the addresses of this pod: NAMESPACE/NAME")
	f.StringVar(&o.onNode, "on-node", "", "release what is Stale of sandboxes that run, or may run, on this node")
	o.addPodNamespace(f, &o.namespace)
	f.StringVar(&o.override, "override", "", "reason that was printed for what is Held, to release it nevertheless")
	f.StringVar(&o.Because, "because", "", "sentence for the log that says why nothing uses what --override releases")
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	o.addDryRun(f)
	o.completeNames(c, true)
	return c
}

func (o *byHand) parse(args []string) error {
	texts := args
	switch {
	case len(args) > 0 && o.pod+o.onNode == "":
	case len(args) == 0 && o.pod != "" && o.onNode == "":
		texts = []string{"pod/" + o.pod}
	case len(args) == 0 && o.pod == "" && o.onNode != "":
		texts = []string{"node/" + o.onNode}
	default:
		return fmt.Errorf("release takes either addresses, pods, nodes or pools, or --pod, or --on-node; "+
			"see '%s release --help'", commandName())
	}
	for _, text := range texts {
		s, err := explain.ParseSubjectIn(o.namespace, text)
		if err != nil {
			return err
		}
		o.subjects = append(o.subjects, s)
	}
	isClean := view.Clean(o.Because) == o.Because && len(o.Because) <= longestBecause
	switch isSentence := strings.Contains(strings.TrimSpace(o.Because), " ") && isClean; {
	case (o.override == "") != (o.Because == ""):
		return errors.New("--override and --because need each other: the reason that was printed, and your sentence")
	case isClean && o.Because != "" && !isSentence:
		return fmt.Errorf("--because %q: one word is no reason: say in a sentence why nothing uses the address", o.Because)
	case o.Because != "" && !isSentence:
		return fmt.Errorf("--because %q: must be a sentence on one line that says why nothing uses the address, "+
			"of at most %d bytes", o.Because, longestBecause)
	}
	return nil
}

// selects returns what reports whether an item is asked for: of a node or a pool what is in use is not.
func selects(s explain.Subject, j *findings.Assessment) func(*judge.Item) bool {
	is := s.Selects(j)
	if s.Kind != explain.Node && s.Kind != explain.Pool {
		return is
	}
	return func(it *judge.Item) bool { return it.Verdict != judge.InUse && is(it) }
}

func (o *byHand) check(ctx context.Context, r *reconciler.Reconciler) (err error) {
	if o.checked, err = r.Check(ctx); err != nil {
		return err
	}
	o.selected, o.missing = nil, nil
	isSelected := map[judge.ID]bool{}
	for i, s := range o.subjects {
		isBare := s.IsBare()
		if s, err = s.Resolve(o.checked.Assessment); err != nil {
			return err
		}
		if isBare && s.Kind != explain.Pool { // it is unique by what was listed
			return fmt.Errorf("%q is %s: give that", o.subjects[i], s)
		}
		o.subjects[i] = s
		found := lists.Filter(slices.Concat(o.checked.Allocations, o.checked.Reservations), selects(s, o.checked.Assessment))
		if len(found) == 0 {
			unread := ""
			if !o.checked.Observation.Reservations.IsKnown() {
				unread = ", as far as is known: reservations cannot be read"
			}
			o.missing = append(o.missing, fmt.Sprintf("%s: nothing to release is recorded%s\n", s, unread))
		}
		for _, it := range lists.Filter(found, view.HasRow) {
			if !isSelected[it.ID()] { // several subjects may have it
				isSelected[it.ID()] = true
				o.selected = append(o.selected, it)
			}
		}
	}
	all := slices.Clone(o.selected)
	for _, it := range o.selected {
		o.filter.Addresses = append(o.filter.Addresses, it.Address()) // picks the findings
		all = append(all, it.Related()...)
	}
	ids := judge.IDs(all)
	o.filter.Has = func(it *judge.Item) bool { return ids[it.ID()] }
	return nil
}

// assert asserts that nothing uses the selected items that are Held for the reason of --override, and judges again.
func (o *byHand) assert(ctx context.Context, r *reconciler.Reconciler) error {
	r.Options.Overrides = map[judge.ID]judge.Reason{}
	for _, it := range o.selected {
		if it.CanBeOverridden() && it.Reason.String() == o.override {
			r.Options.Overrides[it.ID()] = it.Reason
		}
	}
	if len(r.Options.Overrides) == 0 {
		return fmt.Errorf("--override %s: no selected item is Held for this reason and can be overridden", o.override)
	}
	return o.check(ctx, r)
}

func (o *byHand) release(ctx context.Context) error {
	r, _, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	if err = o.check(ctx, r); err == nil && o.override != "" {
		err = o.assert(ctx, r)
	}
	if err != nil {
		return err
	}
	fmt.Fprint(o.err, strings.Join(o.missing, ""))
	printed := planfile.Of(o.selected)
	r.Options.Only = func(it *judge.Item) bool { return isAgreed(printed, it) }
	out, err := o.act(ctx, r, o.consent)
	if err != nil {
		return err
	}
	for _, it := range out.StaleItems() {
		if printed.Has(it) && !isAgreed(printed, it) {
			out.Refused = append(out.Refused, plan.Refused{Item: it, Gate: plan.Gate{Why: plan.Changed,
				Detail: "since it was printed: " + strings.Join(printed.Changes(it), "; ") + "; run again"}})
		}
	}
	remains := o.complete(out)
	a := o.runAnswer(out.Assessment, view.NewRunReport(out, false, o.filter))
	a.isUnresolved = len(o.missing) > 0 || remains
	return o.print(ctx, a)
}

// complete adds to the result why a selected item was neither released nor refused, and reports whether one remains.
func (o *byHand) complete(out *reconciler.Result) (remains bool) {
	isReleased := judge.IDs(out.Released)
	isRefused := judge.IDs(lists.Map(out.Refused, func(x plan.Refused) *judge.Item { return x.Item }))
	now := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		now[it.ID()] = it
	}
	gone := 0
	for _, it := range o.selected {
		at, isRecorded := now[it.ID()]
		switch {
		case isReleased[it.ID()]:
			continue
		case !isRecorded && (it.Allocation != nil || out.Observation.Reservations.IsKnown()):
			gone++
			continue
		case isRecorded && at.Verdict == judge.Stale && !isRefused[it.ID()]:
			out.Refused = append(out.Refused, plan.Refused{Item: at, Gate: plan.Gate{Why: plan.Changed,
				Detail: "it changed at the second check; run again"}})
		}
		remains = true
	}
	if gone > 0 {
		out.Observation.Warnings = append(out.Observation.Warnings, fmt.Sprintf("%d of %s are not recorded any more as "+
			"they were printed: a DEL or an ADD was first", gone, screen.Count(len(o.selected), "item")))
	}
	return remains
}

// isAgreed reports whether a run may release an item, or refuse it in the person's name: it was selected, and what
// makes it Stale is proven or was printed.
func isAgreed(printed *planfile.File, it *judge.Item) bool {
	return printed.Has(it) && (it.Verdict != judge.Stale || it.Proven || printed.Allows(it))
}

// consent prints the evidence, and asks whether to release what can be. Where nothing can be released, or in a dry run,
// it prints what a run would release in the form that --output asks for, and returns errUnresolved.
func (o *byHand) consent(ctx context.Context, r *reconciler.Reconciler) error {
	if len(o.selected) > 0 {
		if releases, err := o.show(ctx, r); releases || err != nil {
			return err
		}
	}
	if o.isTable() {
		return errUnresolved
	}
	out, err := dryRunOf(ctx, r)
	if err != nil {
		return err
	}
	a := o.runAnswer(out.Assessment, view.NewRunReport(out, true, o.filter))
	a.isUnresolved = true
	return o.print(ctx, a)
}

// show prints the evidence, and asks. It reports whether to release.
func (o *byHand) show(ctx context.Context, r *reconciler.Reconciler) (releases bool, err error) {
	d := o.explainJudged(ctx, r, o.checked, explain.Question{Subject: o.subjects[0], Filter: &o.filter})
	d.Advice = slices.DeleteFunc(d.Advice, func(a view.Advice) bool { // about this very release
		return a.Cause == judge.Stale.String() || a.Cause == string(plan.AwaitingConfirmation)
	})
	can := lists.Filter(d.Stale(), view.AllocationRow.CanRelease)
	asserted := lists.Filter(can, func(r view.AllocationRow) bool { return r.IsAsserted })
	counts := fmt.Sprintf("%d of %s", len(can), screen.Count(d.Count(), "item"))
	if len(asserted) > 0 {
		counts += fmt.Sprintf(" (%d because you assert that nothing uses the address)", len(asserted))
	}
	evidence := answer{document: d, screen: func(s *screen.Screen) { s.Explain(d) }}
	if len(can) > 0 && !o.DryRun && o.asks() {
		evidence.screen = func(s *screen.Screen) { s.BeforeRelease(d, can) }
		err = o.confirm(ctx, "release "+counts, "Nothing was released.", evidence)
		return err == nil, err
	}
	o.progress.Stop()
	if o.isTable() {
		_ = writeText(append(o.renderScreen(evidence, o.outDisplay), '\n'))(o.resultWriter())
	}
	switch {
	case len(can) == 0:
		fmt.Fprintln(o.err, "Nothing that was selected can be released.")
		if !o.DryRun {
			r.Decline(view.PlannedResult(o.checked, r.Plan(ctx, o.checked.Assessment)))
		}
	case o.DryRun:
		fmt.Fprintf(o.err, "Dry run: nothing is released. %s can be released.\n", counts)
	}
	return len(can) > 0 && !o.DryRun, nil
}
