package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
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
	behind      int       // for how many of them it is not the only gate
}

// sentence says what stands against how many. No item is said to be released when this gate
// opens that another gate stands against as well.
func (g *Gate) sentence() string {
	but, first, last := "", g.first.UTC().Format(time.RFC3339), g.last.UTC().Format(time.RFC3339)
	if g.behind > 0 {
		but = fmt.Sprintf(", but for %d that something else stands against, too", g.behind)
	}
	switch {
	case g.Refusal != reconciler.AwaitingConfirmation || g.last.IsZero():
		return g.Detail
	case g.behind == g.Count:
		return "is not confirmed before " + last
	case g.first.Equal(g.last):
		return fmt.Sprintf("will be released at %s unless something contradicts it%s", first, but)
	}
	return fmt.Sprintf("will be released from %s to %s unless something contradicts it%s", first, last, but)
}

// gatesOf are the gates that stand, in the order of the refusals, each once: those that
// open at their own time for each item are one.
func gatesOf(standing []reconciler.Gate, refused []reconciler.Refused, f Filter) []Gate {
	gates := []Gate{}
	byKey := map[reconciler.Gate]int{}
	add := func(g reconciler.Gate, n, behind int) {
		at := g.At
		if g.At = (time.Time{}); g.Why == reconciler.AwaitingConfirmation && !at.IsZero() {
			g.Detail = ""
		}
		i, there := byKey[g]
		if !there {
			i = len(gates)
			byKey[g] = i
			gates = append(gates, Gate{Refusal: g.Why, Detail: g.Detail, Pool: g.Pool})
		}
		e := &gates[i]
		e.Count += n
		e.behind += behind
		if !at.IsZero() && (e.first.IsZero() || at.Before(e.first)) {
			e.first = at
		}
		if at.After(e.last) {
			e.last = at
		}
	}
	for _, g := range standing {
		if g.Pool == "" || f.Pool(g.Pool) {
			add(g, 0, 0)
		}
	}
	for _, x := range refused {
		if f.Item(x.Item) && x.Gate.Why != reconciler.DryRunRefusal {
			for _, g := range append([]reconciler.Gate{x.Gate}, x.Also...) {
				add(g, 1, min(len(x.Also), 1))
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

// When is a time, nil for zero.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
