package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Gate is a cause for not releasing Stale items.
type Gate struct {
	Refusal plan.Refusal `json:"refusal"`
	Detail  string       `json:"detail"`
	// Pool is the pool of a gate that is about one pool.
	Pool string `json:"pool,omitempty"`
	// Count is the number of Stale items that the gate stands against.
	Count int `json:"count"`
	// FirstReleasableAt and LastReleasableAt are absent where the gate does not open by itself.
	FirstReleasableAt *time.Time `json:"firstReleasableAt,omitempty"`
	LastReleasableAt  *time.Time `json:"lastReleasableAt,omitempty"`
}

// gatesOf returns the gates in the order of the refusals, each once. Those that differ only in their time are one.
func gatesOf(standing []plan.Gate, refused []plan.Refused) []Gate {
	gates := []Gate{}
	add := func(g plan.Gate, n int) {
		at := When(g.At)
		isTimed := g.Why == plan.AwaitingConfirmation && at != nil
		i := slices.IndexFunc(gates, func(x Gate) bool {
			return x.Refusal == g.Why && x.Pool == g.Pool && (x.Detail == g.Detail || isTimed && x.FirstReleasableAt != nil)
		})
		if i < 0 {
			gates = append(gates, Gate{g.Why, g.Detail, g.Pool, n, at, at})
			return
		}
		e := &gates[i]
		if e.Count += n; isTimed && e.Detail != g.Detail {
			times := []*time.Time{e.FirstReleasableAt, at, e.LastReleasableAt}
			slices.SortFunc(times, func(a, b *time.Time) int { return a.Compare(*b) })
			e.FirstReleasableAt, e.LastReleasableAt = times[0], times[2]
			e.Detail = fmt.Sprintf("the verdicts are confirmed from %s to %s unless something contradicts them",
				e.FirstReleasableAt.Format(time.RFC3339), e.LastReleasableAt.Format(time.RFC3339))
		}
	}
	for _, g := range standing {
		add(g, 0)
	}
	for _, x := range refused {
		if x.Gate.Why != plan.DryRunRefusal {
			for _, g := range x.Gates() {
				add(g, 1)
			}
		}
	}
	order := func(g Gate) int { return slices.Index(plan.Refusals(), g.Refusal) }
	slices.SortStableFunc(gates, func(a, b Gate) int { return cmp.Or(order(a)-order(b), cmp.Compare(a.Pool, b.Pool)) })
	return gates
}
