package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Gate is a cause for which Stale items are not released.
type Gate struct {
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
	// Pool is the pool that it is about, left out where it is about more.
	Pool string `json:"pool,omitempty"`
	// Count is how many Stale items it stands against.
	Count int `json:"count"`
	// FirstReleasableAt and LastReleasableAt are left out where the gate does not open by itself.
	FirstReleasableAt *time.Time `json:"firstReleasableAt,omitempty"`
	LastReleasableAt  *time.Time `json:"lastReleasableAt,omitempty"`

	first, last time.Time // the same, with fractions of a second
	isNotAlone  bool      // another gate stands against one of them, too
}

// sentence says what stands against them. Nothing is said to be released when this gate opens while another stands.
func (g *Gate) sentence() string {
	first, last := g.first.UTC().Format(time.RFC3339), g.last.UTC().Format(time.RFC3339)
	switch {
	case g.Refusal != reconciler.AwaitingConfirmation || g.last.IsZero():
		return g.Detail
	case g.isNotAlone:
		return "is not confirmed before " + last
	case g.first.Equal(g.last):
		return fmt.Sprintf("will be released at %s unless something contradicts it", first)
	}
	return fmt.Sprintf("will be released from %s to %s unless something contradicts it", first, last)
}

// gatesOf are the gates that stand, in the order of the refusals, each once: those that
// open at their own time for each item are one.
func gatesOf(standing []reconciler.Gate, refused []reconciler.Refused) []Gate {
	gates := []Gate{}
	add := func(g reconciler.Gate, n int, isNotAlone bool) {
		if g.Why == reconciler.AwaitingConfirmation && !g.At.IsZero() {
			g.Detail = ""
		}
		i := slices.IndexFunc(gates, func(x Gate) bool { return x.Refusal == g.Why && x.Pool == g.Pool && x.Detail == g.Detail })
		if i < 0 {
			i, gates = len(gates), append(gates, Gate{Refusal: g.Why, Detail: g.Detail, Pool: g.Pool, first: g.At})
		}
		e := &gates[i]
		e.Count += n
		e.isNotAlone = e.isNotAlone || isNotAlone
		if g.At.Before(e.first) {
			e.first = g.At
		}
		if g.At.After(e.last) {
			e.last = g.At
		}
	}
	for _, g := range standing {
		add(g, 0, false)
	}
	for _, x := range refused {
		if x.Gate.Why != reconciler.DryRunRefusal {
			for _, g := range append([]reconciler.Gate{x.Gate}, x.Also...) {
				add(g, 1, len(x.Also) > 0)
			}
		}
	}
	for i := range gates {
		g := &gates[i]
		g.Detail, g.FirstReleasableAt, g.LastReleasableAt = g.sentence(), When(g.first), When(g.last)
	}
	order := func(g Gate) int { return slices.Index(reconciler.Refusals(), g.Refusal) }
	slices.SortStableFunc(gates, func(a, b Gate) int { return cmp.Or(order(a)-order(b), cmp.Compare(a.Pool, b.Pool)) })
	return gates
}

// GatesAgainst are all that stand against the release of an item. Something Stale without any is released by the next
// pass.
func (r *Report) GatesAgainst(it *judge.Item) []Gate {
	if x, refused := r.RefusedOf(it); refused {
		return gatesOf(nil, []reconciler.Refused{x})
	}
	return nil
}

// When is a time, nil for zero.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
