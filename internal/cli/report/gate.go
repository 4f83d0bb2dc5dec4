package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Gate is a cause for not releasing Stale items.
type Gate struct {
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
	// Pool is the pool of a gate that is about one pool.
	Pool string `json:"pool,omitempty"`
	// Count is the number of Stale items that the gate stands against.
	Count int `json:"count"`
	// FirstReleasableAt and LastReleasableAt are absent where the gate does not open by itself.
	FirstReleasableAt *time.Time `json:"firstReleasableAt,omitempty"`
	LastReleasableAt  *time.Time `json:"lastReleasableAt,omitempty"`
}

// gatesOf returns the gates in the order of the refusals, each once. Gates that open at a time of their own for each
// item are one gate.
func gatesOf(standing []reconciler.Gate, refused []reconciler.Refused) []Gate {
	gates := []Gate{}
	add := func(g reconciler.Gate, n int) {
		at := When(g.At)
		isTimed := g.Why == reconciler.AwaitingConfirmation && at != nil
		i := slices.IndexFunc(gates, func(x Gate) bool {
			return x.Refusal == g.Why && x.Pool == g.Pool && (x.Detail == g.Detail || isTimed && x.FirstReleasableAt != nil)
		})
		if i < 0 {
			gates = append(gates, Gate{g.Why, g.Detail, g.Pool, n, at, at})
			return
		}
		e := &gates[i]
		if e.Count += n; !isTimed {
			return
		}
		if at.Before(*e.FirstReleasableAt) {
			e.FirstReleasableAt = at
		}
		if at.After(*e.LastReleasableAt) {
			e.LastReleasableAt = at
		}
		if e.Detail != g.Detail {
			e.Detail = fmt.Sprintf("the verdicts are confirmed from %s to %s unless something contradicts them",
				e.FirstReleasableAt.Format(time.RFC3339), e.LastReleasableAt.Format(time.RFC3339))
		}
	}
	for _, g := range standing {
		add(g, 0)
	}
	for _, x := range refused {
		if x.Gate.Why != reconciler.DryRunRefusal {
			for _, g := range x.Gates() {
				add(g, 1)
			}
		}
	}
	order := func(g Gate) int { return slices.Index(reconciler.Refusals(), g.Refusal) }
	slices.SortStableFunc(gates, func(a, b Gate) int { return cmp.Or(order(a)-order(b), cmp.Compare(a.Pool, b.Pool)) })
	return gates
}

// When returns a time in UTC without fractions of a second, nil for zero.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
