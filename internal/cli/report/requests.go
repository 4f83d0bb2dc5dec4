package report

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Patch is a JSON patch of an IPPool.
type Patch struct {
	Pool       string `json:"pool"`
	Operations []any  `json:"operations"`
}

// Requests are the requests by which a run releases items.
type Requests struct {
	// Deletes are reservations, by namespace and name.
	Deletes []string
	Patches []Patch
}

// RequestsOf returns the requests for what a dry run would release now: a delete for each reservation that no other
// allocation needs, and the patches that remove the allocations.
func RequestsOf(out *reconciler.Result) (*Requests, error) {
	leaving, deletes := map[judge.ID]bool{}, map[string]bool{}
	released := Only(out.Refused, func(x reconciler.Refused) bool { return x.Gate.Why == reconciler.DryRunRefusal })
	for _, x := range released {
		leaving[x.ID()] = true
	}
	entries := map[*ippool.Pool][]ippool.Allocation{}
	for _, x := range released {
		it := x.Item
		if it.Reservation != nil {
			deletes[it.Reservation.Ref()] = true
			continue
		}
		entries[it.Pool] = append(entries[it.Pool], *it.Allocation)
		for _, r := range it.Related() {
			stays := func(a *judge.Item) bool { return !leaving[a.ID()] }
			if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), stays) {
				deletes[r.Reservation.Ref()] = true
			}
		}
	}
	all := &Requests{Deletes: slices.Sorted(maps.Keys(deletes))}
	for _, pool := range out.Observation.Pools {
		for part := range slices.Chunk(entries[pool], ippool.MaxRemovals) {
			text, err := ippool.RemovePatch(pool, part)
			if err != nil {
				return nil, err
			}
			p := Patch{Pool: pool.Ref()}
			if err := json.Unmarshal(text, &p.Operations); err != nil {
				return nil, err
			}
			all.Patches = append(all.Patches, p)
		}
	}
	return all, nil
}
