package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// longestBecause bounds what each record of an override has.
const longestBecause = 500

// byHand is what a person asks to release.
type byHand struct {
	options
	pod, onNode, override, because string
	dryRun, yes                    bool
	subjects                       []explanation.Subject // of one kind
}

func newRelease(std streams) *cobra.Command {
	o := &byHand{options: options{component: "release"}}
	o.ByHand = true
	var dryRun string
	c := &cobra.Command{
		Use:   "release ADDRESS... | --pod NAMESPACE/NAME | --node NAME",
		Short: "Release these addresses now, by hand, if they are stale",
		Long: `Print the evidence on addresses, on those of a pod, or on those of sandboxes that run or
may run on a node; ask; and release what is Stale, as run does: under whereabouts' own
Lease, after a second check, which tests the container ID that was printed.

release waits for no confirmation, since a person has read the evidence. With node agents
an unconfirmed item waits a minute: until then a report may be older than an ADD in
progress. release refuses what is Held or InUse, and prints what would change that. Where
the evidence changes after it was printed, release releases only what is proven.

--override REASON asserts that nothing uses an address that is Held for this very reason,
for lack of evidence: NoFreshReport, NodeUnreachable, NetworkStatusMissing, or
StuckTerminating without node agents. --because has your reason, for the log. If the
assertion is wrong, two pods get one address. Nothing overrides a fresh report of the
sandbox, another pod or sandbox with the address, or a pause.

Without a terminal --yes is needed. --dry-run and --snapshot write nothing.

Exit code 0: everything that was selected is released; 1: something is not, and the output
says why; 2: the cluster could not be read.`,
		Example: `  ip-reconcile release 10.0.0.20
  ip-reconcile release 10.0.0.20 10.0.0.21 --yes
  ip-reconcile release --pod default/web-0
  ip-reconcile release --node worker-1 --dry-run
  ip-reconcile release 10.0.0.20 --override NodeUnreachable --because "worker-1 was scrapped on Monday"`,
		Args: func(_ *cobra.Command, args []string) error { return o.parse(args) },
		RunE: func(c *cobra.Command, _ []string) error {
			isDry, err := parseDryRun(dryRun)
			if err != nil {
				return err
			}
			o.dryRun = isDry || o.snapshot != ""
			o.writes = !o.dryRun
			return o.release(c, std)
		},
	}
	f := c.Flags()
	o.addWithoutNode(f, "info")
	o.addSnapshot(f)
	o.addMissingAfter(f)
	o.AddWithout(f)
	o.AddAudit(f)
	f.StringVar(&o.pod, "pod", "", "release the addresses of this pod: NAMESPACE/NAME")
	f.StringVar(&o.onNode, "node", "", "release what is Stale of sandboxes that run, or may run, on this node")
	f.StringVar(&o.override, "override", "", "reason that was printed for what is Held, to release it nevertheless")
	f.StringVar(&o.because, "because", "", "sentence for the log that says why nothing uses what --override releases")
	f.BoolVar(&o.yes, "yes", false, "release without asking")
	addDryRun(f, &dryRun)
	o.completions(c)
	return c
}

// parse parses what to release.
func (o *byHand) parse(args []string) error {
	kind, texts := explanation.Address, args
	switch {
	case len(args) > 0 && o.pod+o.onNode == "":
	case len(args) == 0 && o.pod != "" && o.onNode == "":
		kind, texts = explanation.Pod, []string{"pod/" + o.pod}
	case len(args) == 0 && o.pod == "" && o.onNode != "":
		kind, texts = explanation.Node, []string{"node/" + o.onNode}
	default:
		return errors.New("release takes either addresses, or --pod, or --node; see 'ip-reconcile release --help'")
	}
	for _, text := range texts {
		s, err := explanation.ParseSubject(text)
		if err == nil && s.Kind != kind {
			err = fmt.Errorf("%q: must be an IP address; for a pod or a node use --pod or --node", text)
		}
		if err != nil {
			return err
		}
		o.subjects = append(o.subjects, s)
	}
	isClean := table.Clean(o.because) == o.because && len(o.because) <= longestBecause
	switch isSentence := strings.Contains(strings.TrimSpace(o.because), " ") && isClean; {
	case (o.override == "") != (o.because == ""):
		return errors.New("--override and --because need each other: the reason that was printed, and your sentence")
	case o.because != "" && !isSentence:
		return fmt.Errorf("--because %q: must be a sentence on one line that says why nothing uses the address, "+
			"of at most %d bytes", o.because, longestBecause)
	}
	return nil
}

// selects reports whether a subject names an item.
func selects(s explanation.Subject, it *judge.Item) bool {
	switch owner := it.Owner(); s.Kind {
	case explanation.Address:
		return it.Address() == s.Address
	case explanation.Pod:
		return owner.Namespace == s.Namespace && owner.Name == s.Name
	}
	return it.Verdict != judge.InUse && report.Filter{Nodes: []string{s.Name}}.Item(it)
}

// check judges, and selects the items. missing has a sentence for each subject that names none.
func (o *byHand) check(ctx context.Context, r *reconciler.Reconciler) (
	j *judge.Judgement, selected []*judge.Item, missing []string, err error,
) {
	if j, err = r.Check(ctx); err != nil {
		return nil, nil, nil, err
	}
	o.filter.IDs = map[judge.ID]bool{}
	for _, s := range o.subjects {
		isOf := func(it *judge.Item) bool { return selects(s, it) }
		found := report.Only(slices.Concat(j.Allocations, j.Reservations), isOf)
		if len(found) == 0 {
			missing = append(missing, fmt.Sprintf("%s: nothing to release is recorded\n", s))
		}
		selected = append(selected, report.Only(found, report.OwnRow)...)
	}
	for _, it := range selected {
		o.filter.Addresses = append(o.filter.Addresses, it.Address()) // picks the findings
		for _, of := range slices.Concat(it.Related(), []*judge.Item{it}) {
			o.filter.IDs[of.ID()] = true
		}
	}
	return j, selected, missing, nil
}

// assert makes the person's assertion about those of the selected items that are Held for the reason of --override.
func (o *byHand) assert(r *reconciler.Reconciler, selected []*judge.Item) error {
	r.Options.Because, r.Options.Overrides = o.because, map[judge.ID]judge.Reason{}
	for _, it := range selected {
		if it.CanBeOverridden() && it.Reason.String() == o.override {
			r.Options.Overrides[it.ID()] = it.Reason
		}
	}
	if len(r.Options.Overrides) == 0 {
		return fmt.Errorf("--override %s: no selected item is Held for this reason and can be overridden", o.override)
	}
	return nil
}

func (o *byHand) release(c *cobra.Command, std streams) error {
	ctx := c.Context()
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return err
	}
	r.PassStore = nil // status reports no pass of a person
	j, selected, missing, err := o.check(ctx, r)
	if err == nil && o.override != "" {
		if err = o.assert(r, selected); err == nil {
			j, selected, missing, err = o.check(ctx, r)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprint(std.err, strings.Join(missing, ""))
	printed := planfile.Of(selected)
	r.Options.Only = func(it *judge.Item) bool { return isAgreed(printed, it) }
	if len(selected) == 0 {
		return cmp.Or(o.printDryRun(ctx, std, r), errUnresolved)
	}
	defer o.keepHistory()()
	if isYes, err := o.consent(c, std, r, j); err != nil || !isYes {
		return cmp.Or(err, errUnresolved)
	}
	out, err := r.Run(ctx)
	if err != nil {
		return err
	}
	isReleased := map[judge.ID]bool{}
	for _, it := range out.Released {
		isReleased[it.ID()] = true
	}
	for _, it := range out.StaleItems() {
		if printed.Has(it) && !isAgreed(printed, it) {
			out.Refused = append(out.Refused, reconciler.Refused{Item: it, Gate: reconciler.Gate{Why: reconciler.Changed,
				Detail: "since it was printed: " + strings.Join(printed.Changes(it), "; ") + "; run again"}})
		}
	}
	remains := func(it *judge.Item) bool { return !isReleased[it.ID()] }
	err = o.printRun(ctx, std, report.OfRun(out, false, o.filter))
	if err == nil && (len(missing) > 0 || slices.ContainsFunc(selected, remains)) {
		return errUnresolved
	}
	return err
}

// isAgreed reports whether a run may release an item, or refuse it in the person's name: it was selected, and what
// makes it Stale is proven or was printed.
func isAgreed(printed *planfile.File, it *judge.Item) bool {
	return printed.Has(it) && (it.Verdict != judge.Stale || it.Proven || printed.Allows(it))
}

// consent prints the evidence, and reports whether to release what can be. Where nothing is released, it prints what a
// run would release in the form that --output asks for.
func (o *byHand) consent(c *cobra.Command, std streams, r *reconciler.Reconciler, j *judge.Judgement) (bool, error) {
	ctx := c.Context()
	rep, d := o.explainJudged(ctx, r, j, explanation.Question{Subject: o.subjects[0], Picks: o.filter}, c.Flags())
	d.Advice = slices.DeleteFunc(d.Advice, func(a document.Advice) bool { // about this very release
		return a.Cause == judge.Stale.String() || a.Cause == string(reconciler.AwaitingConfirmation)
	})
	all := report.Only(rep.Items(), report.OwnRow)
	can := report.Only(rep.Pick(judge.Stale), func(it *judge.Item) bool {
		x, isRefused := rep.RefusedOf(it)
		return !isRefused || !x.At().IsZero()
	})
	asserted := report.Only(can, func(it *judge.Item) bool { return it.IsOverridden() })
	asks := len(can) > 0 && !o.dryRun && !o.yes && std.in != nil
	text, counts := o.renderScreen(answer{at: j.Observation.Now, screen: func(s *screen.Screen) { s.Explain(rep, d) }}),
		fmt.Sprintf("%d of %s", len(can), screen.Count(len(all), "item"))
	if len(asserted) > 0 {
		counts += fmt.Sprintf(" (%d because you assert that nothing uses the address)", len(asserted))
	}
	if asks {
		_, _ = std.err.Write(append(text, '\n')) // where the question is
	} else if o.isTable() {
		_, _ = std.out.Write(append(text, '\n'))
	}
	switch {
	case len(can) == 0:
		fmt.Fprintln(std.err, "Nothing that was selected can be released.")
		if !o.dryRun && (o.yes || std.in != nil) {
			r.RecordRefusals(&reconciler.Result{Judgement: j, Refused: r.Plan(ctx, j).Refused})
		}
	case o.dryRun:
		fmt.Fprintf(std.err, "Dry run: nothing is released. %s can be released.\n", counts)
	case o.yes:
		return true, nil
	case asks:
		return std.ask(ctx, "Release "+counts+"?"), nil
	default:
		fmt.Fprintf(std.err, "Nothing is released without --yes or a terminal to ask on. %s can be released.\n", counts)
	}
	return false, o.printDryRun(ctx, std, r)
}

// printDryRun prints what would be released as a document for programs.
func (o *byHand) printDryRun(ctx context.Context, std streams, r *reconciler.Reconciler) error {
	if o.isTable() {
		return nil
	}
	out, err := dryRunOf(ctx, r)
	if err == nil {
		err = o.printRun(ctx, std, report.OfRun(out, true, o.filter))
	}
	return err
}
