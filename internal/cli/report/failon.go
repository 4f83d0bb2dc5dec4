package report

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// FailOn lists the verdicts, reasons, refusals and kinds of findings that make a command end with exit code 1. Nil
// stands for Stale and every finding; for a run it stands for Stale items that are not released.
type FailOn []string

// FailOnNothing is the value of --fail-on for which only errors make a command fail.
const FailOnNothing = "none"

// NewFailOn reads the value of --fail-on, in any case. The error for an unknown word lists the known ones.
func NewFailOn(asked []string) (FailOn, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	known := slices.Concat(Verdicts(), judge.ReasonNames(), Kinds())
	for _, r := range reconciler.Refusals() {
		known = append(known, string(r))
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var texts []string
	for _, text := range asked {
		if text = strings.TrimSpace(text); !strings.EqualFold(text, FailOnNothing) {
			texts = append(texts, text)
		}
	}
	return words("fail-on", texts, known, "must be "+FailOnNothing+", or of "+strings.Join(known, ", "))
}

// Fails reports whether a report makes the command fail.
func (on FailOn) Fails(r *Report) bool {
	switch {
	case on == nil && r.Ran:
		return len(r.Left) > 0
	case on == nil:
		return r.Stale() > 0 || len(r.Findings) > 0
	}
	names := func(word string) bool { return slices.Contains(on, word) }
	released := map[judge.ID]bool{}
	for _, it := range r.Released {
		released[it.ID()] = true
	}
	return slices.ContainsFunc(r.Items(), func(it *judge.Item) bool {
		isNamed := names(it.Verdict.String()) || names(it.Reason.String()) || names(string(r.Refused[it.ID()].Main().Why))
		return isNamed && OwnRow(it) && !released[it.ID()]
	}) || slices.ContainsFunc(r.Findings, func(f judge.Finding) bool { return names(string(f.Kind)) })
}
