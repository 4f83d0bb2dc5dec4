package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// FailOn is what makes a command end with exit code 1: verdicts, reasons, refusals and kinds
// of findings. Nil is what is Stale, and any finding; of a run what is left.
type FailOn []string

// FailOnNothing is the value of --fail-on by which only errors make a command fail.
const FailOnNothing = "none"

// NewFailOn reads the value of --fail-on, in any case. A word that does not exist is an
// error, which names those that do.
func NewFailOn(words []string) (FailOn, error) {
	if len(words) == 0 {
		return nil, nil
	}
	known := slices.Concat(Verdicts(), judge.ReasonNames(), Kinds())
	for _, r := range reconciler.Refusals() {
		known = append(known, string(r))
	}
	on := FailOn{}
	for _, text := range words {
		if strings.EqualFold(text, FailOnNothing) {
			continue
		}
		word, ok := fold(strings.TrimSpace(text), known)
		if !ok {
			return nil, fmt.Errorf("--fail-on %q: must be %s, or of %s", text, FailOnNothing, strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", "))
		}
		on = append(on, word)
	}
	return on, nil
}

// Fails reports whether the report has something that makes the command fail.
func (on FailOn) Fails(r *Report) bool {
	if on == nil {
		if r.Ran {
			return len(r.Left) > 0
		}
		return r.Stale() > 0 || len(r.Findings) > 0
	}
	released := map[judge.ID]bool{}
	for _, it := range r.Released {
		released[it.ID()] = true
	}
	for _, it := range slices.Concat(r.Allocations, r.Reservations) {
		is := []string{it.Verdict.String(), it.Reason.String(), string(r.Refused[it.ID()].Why)}
		if OwnRow(it) && !released[it.ID()] && slices.ContainsFunc(is, func(w string) bool { return slices.Contains(on, w) }) {
			return true
		}
	}
	return slices.ContainsFunc(r.Findings, func(f judge.Finding) bool { return slices.Contains(on, string(f.Kind)) })
}
