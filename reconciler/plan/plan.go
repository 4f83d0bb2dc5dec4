// Package plan decides what a pass releases and repairs now, and why not the rest. What comes in are verdicts and
// findings, what earlier passes have learned (memory.Memory, restore.State), what was counted within the last hour
// (Window, RepairCounts), and an operator's Options. Out go a Plan of releases and one of Repairs. It does no I/O and
// keeps nothing: the time is that of the observation, and what the next pass needs is returned.
//
// Each Stale item must pass the gates of gates.go, and all unconfirmed ones together the breaker of window.go. The
// second check under the Lease asks the same gates again. Read plan.go, gates.go, window.go and repairs.go.
package plan

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Plan is what a pass releases now, and what it refuses.
type Plan struct {
	Release     []*judge.Item
	Refused     []Refused
	Until       time.Time // when the next refused item is confirmed; zero for none
	CommonGates []Gate    // the gates against a pool or everything, even if nothing there is Stale

	now         time.Time // of the observation
	total       int       // allocations, by which the breaker measures
	unconfirmed int       // items that the breaker counts
	options     Options
}

// Make picks what may be released now: each item must pass the gates, and all unconfirmed ones the breaker. The window
// has the releases of the last hour that are known so far.
func Make(j *judge.Judgement, m memory.Memory, s restore.State, w Window, o Options) *Plan {
	p := PassGates(j, m, s, o)
	if _, why := p.Count(w); why != "" {
		p.RefuseUnconfirmed(Gate{Why: Breaker, Detail: why})
	}
	return p
}

// PassGates is Make without the breaker. A reservation that is released with its allocation is not in the plan.
func PassGates(j *judge.Judgement, m memory.Memory, s restore.State, o Options) *Plan {
	p := &Plan{CommonGates: CommonGates(j, s), now: j.Observation.Now, total: j.Total, options: o}
	var unconfirmed []*judge.Item
	for _, it := range j.StaleItems() {
		if it.Reservation != nil && len(it.Related()) > 0 || !o.IsInScope(it) {
			continue
		}
		gates := gatesOf(it, j.Observation, p.CommonGates, m, o)
		switch {
		case len(gates) > 0:
			p.Block(it, gates...)
		case it.Proven:
			p.Release = append(p.Release, it)
		default:
			unconfirmed = append(unconfirmed, it)
		}
	}
	p.Release, p.unconfirmed = append(p.Release, unconfirmed...), len(unconfirmed)
	return p
}

// Count returns a window with the unconfirmed releases of the plan. If why is not empty, the breaker refuses them for
// this reason, and the window is returned as it was.
func (p *Plan) Count(w Window) (next Window, why string) {
	if why := w.refusal(p.now, p.unconfirmed, p.total); why != "" && !p.options.AllowMassRelease {
		return w, why
	}
	return w.Add(p.now, CountUnconfirmed(p.Release), p.total), ""
}

// NeedsForecast reports whether the breaker may refuse what awaits only its confirmation.
func (p *Plan) NeedsForecast() bool {
	waits, _ := p.awaiting()
	return len(waits) > 0 && !p.options.AllowMassRelease
}

// Forecast adds the breaker to the gates of items that await confirmation, if all of them together are too many.
func (p *Plan) Forecast(w Window) {
	if !p.NeedsForecast() {
		return
	}
	waits, at := p.awaiting()
	if why := w.refusal(at, p.unconfirmed+len(waits), p.total); why != "" {
		for _, x := range waits {
			x.Also = append(x.Also, Gate{Why: Breaker, Detail: why})
		}
	}
}

// awaiting returns the items that await only their confirmation, and when the last one is confirmed.
func (p *Plan) awaiting() (waits []*Refused, at time.Time) {
	for i := range p.Refused {
		if x := &p.Refused[i]; x.Why == AwaitingConfirmation && len(x.Also) == 0 {
			waits, at = append(waits, x), later(at, x.Gate.At)
		}
	}
	return waits, at
}

// RefuseUnconfirmed refuses all unconfirmed items of the plan because of a gate.
func (p *Plan) RefuseUnconfirmed(g Gate) {
	p.Release = slices.DeleteFunc(p.Release, func(it *judge.Item) bool {
		if !it.Proven {
			p.Block(it, g)
		}
		return !it.Proven
	})
}

// Block adds an item that is refused because of the gates, at least one. It does not remove it from Release.
func (p *Plan) Block(it *judge.Item, gates ...Gate) {
	p.Refused = append(p.Refused, Refused{Item: it, Gate: gates[0], Also: gates[1:]})
	if gates[0].Why == AwaitingConfirmation {
		p.Until = EarliestNonZero(p.Until, gates[0].At)
	}
}

// EarliestNonZero returns the earlier of two times, where zero is never.
func EarliestNonZero(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
