// Package plantest has what tests want of plans.
package plantest

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Want compares plans. What they are of says what each one is about.
type Want struct{ T *testing.T }

// WantReleased wants everything Stale released.
func (w Want) WantReleased(says string, p *plan.Plan) {
	w.T.Helper()
	if len(p.Release) == 0 || len(p.Refused) > 0 {
		w.T.Errorf("%s: releases %d, refuses %s; want everything released", says, len(p.Release), Refusals(p))
	}
}

// WantHeld wants no Stale item.
func (w Want) WantHeld(says string, p *plan.Plan) {
	w.T.Helper()
	if len(p.Release)+len(p.Refused) > 0 {
		w.T.Errorf("%s: releases %d, refuses %s; want nothing Stale", says, len(p.Release), Refusals(p))
	}
}

// WantRefused wants everything Stale refused for one reason.
func (w Want) WantRefused(says string, why plan.Refusal, p *plan.Plan) {
	w.T.Helper()
	if len(p.Release) > 0 || len(p.Refused) == 0 {
		w.T.Errorf("%s: releases %d, refuses %s; want everything refused: %s", says, len(p.Release), Refusals(p), why)
	}
	for _, r := range p.Refused {
		if r.Why != why || r.Detail == "" {
			w.T.Errorf("%s: refused as %s (%q), want %s with a sentence", says, r.Why, r.Detail, why)
		}
	}
}

// Refusals says what a plan refuses, and why.
func Refusals(p *plan.Plan) (text string) {
	for _, r := range p.Refused {
		text += string(r.Why) + ": " + r.Detail + "; "
	}
	return text
}
