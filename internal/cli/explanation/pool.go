package explanation

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// poolsOf are the pools that are asked about, or that have the items.
func poolsOf(all *usage.Pools, s Subject, found *judge.Judgement) []*usage.Pool {
	wanted := sets.New[string]()
	for _, it := range slices.Concat(found.Allocations, found.Reservations) {
		for _, p := range it.PoolNames() {
			wanted.Insert(p.String())
		}
	}
	var pools []*usage.Pool
	for _, p := range all.All {
		asked := s.Kind == Pool && s.isPool(p.Pool) || s.Kind == Address && p.Problem == "" && p.Range.Contains(s.Address)
		if asked || s.Kind != Pool && wanted.Has(p.Ref()) {
			pools = append(pools, p)
		}
	}
	slices.SortFunc(pools, func(a, b *usage.Pool) int { return cmp.Compare(a.Ref(), b.Ref()) })
	return pools
}
