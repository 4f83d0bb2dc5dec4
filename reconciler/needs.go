package reconciler

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Needs reports whether an allocation or reservation that was not released rests on a report: it could be of a sandbox
// of that node, or is held because one of that node carries the address.
func (out *Result) Needs(r *podstate.Report) bool {
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	return slices.ContainsFunc(slices.Concat(out.Allocations, out.Reservations), func(it *judge.Item) bool {
		e := it.Evidence()
		return e != nil && (slices.Contains(e.Nodes, r.Name) || e.ClaimantNode == r.Name) && !released[it.ID()]
	})
}
