package explanation

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// PoolState is a pool with the definitions that use it.
type PoolState struct {
	*ippool.Pool
	// Definitions are NetworkAttachmentDefinitions, as "<namespace>/<name>", sorted.
	Definitions []string
}

// poolsOf are the pools that are asked about, or that have the items.
func poolsOf(j *judge.Judgement, s Subject, found *judge.Judgement) []PoolState {
	wanted := sets.New[string]()
	for _, it := range slices.Concat(found.Allocations, found.Reservations) {
		for _, p := range it.PoolNames() {
			wanted.Insert(p.String())
		}
	}
	var pools []PoolState
	for _, p := range j.Observation.Pools {
		asked := s.Kind == Pool && s.isPool(p) || s.Kind == Address && p.Problem == "" && p.Range.Contains(s.Address)
		if asked || s.Kind != Pool && wanted.Has(p.Ref()) {
			pools = append(pools, PoolState{p, j.DefinitionsOf(p)})
		}
	}
	slices.SortFunc(pools, func(a, b PoolState) int { return cmp.Compare(a.Ref(), b.Ref()) })
	return pools
}
