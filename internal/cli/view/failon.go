package view

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// FailOn lists the verdicts, reasons, refusals and kinds of findings that make a command end with exit code 1. A
// refusal counts for an item, for a repair, and where it stands against everything or a pool, even if nothing there is
// Stale. Nil stands for Stale and every finding; for a run it stands for Stale items that are not released. A kind of
// findings that rests on an unknown source counts as found.
type FailOn []string

// FailOnNothing is the value of --fail-on for which only errors make a command fail.
const FailOnNothing = "none"

// NewFailOn reads the value of --fail-on, in any case. The error for an unknown word says which one is meant, or lists
// the known ones.
func NewFailOn(asked []string) (FailOn, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	known := slices.Concat(Verdicts(), judge.ReasonNames(), Kinds(), texts(plan.Refusals()))
	slices.Sort(known)
	known = slices.Compact(known)
	isSome := func(text string) bool { return !strings.EqualFold(strings.TrimSpace(text), FailOnNothing) }
	must := "must be " + FailOnNothing + ", or of " + strings.Join(known, ", ")
	return words("fail-on", lists.Filter(asked, isSome), known, must)
}

// Fails reports whether check fails.
func (on FailOn) Fails(d *CheckReport) bool {
	if on == nil {
		return d.picked.Stale() > 0 || len(d.Findings)+len(d.UnknownKinds) > 0
	}
	names := func(word string) bool { return slices.Contains(on, word) }
	return slices.ContainsFunc(d.picked.Items(), func(it *judge.Item) bool {
		why := d.picked.refused[it.ID()].Main().Why
		isNamed := names(it.Verdict.String()) || names(it.Reason.String()) || names(string(why))
		return isNamed && HasRow(it) && !d.picked.released[it.ID()]
	}) || slices.ContainsFunc(d.picked.common, func(g plan.Gate) bool { return names(string(g.Why)) }) ||
		slices.ContainsFunc(d.Findings, func(f Finding) bool { return names(string(f.Kind)) }) ||
		slices.ContainsFunc(d.UnknownKinds, names)
}

// FailsRun reports whether a run fails.
func (on FailOn) FailsRun(d *RunReport) bool {
	if on == nil {
		return len(d.FailedRows) > 0
	}
	return on.Fails(&d.CheckReport) || slices.ContainsFunc(d.NotRepaired, func(x NotRepaired) bool {
		return slices.Contains(on, string(x.Why))
	})
}
