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

// FailOnWords are the words of --fail-on but FailOnNothing.
func FailOnWords() []string {
	words := slices.Concat(Verdicts(), judge.ReasonNames(), Kinds())
	for _, r := range reconciler.Refusals() {
		words = append(words, string(r))
	}
	return words
}

// NewFailOn reads the value of --fail-on, in any case. A word that does not exist is an
// error, which names those that do.
func NewFailOn(words []string) (FailOn, error) {
	if len(words) == 0 {
		return nil, nil
	}
	known := FailOnWords()
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
		if OwnRow(it) && !released[it.ID()] && (slices.Contains(on, it.Verdict.String()) || slices.Contains(on, it.Reason.String())) {
			return true
		}
	}
	for _, x := range r.Refused {
		if slices.Contains(on, string(x.Why)) {
			return true
		}
	}
	return slices.ContainsFunc(r.Findings, func(f judge.Finding) bool { return slices.Contains(on, string(f.Kind)) })
}
