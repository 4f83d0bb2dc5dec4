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

// Requests are what a run would send to release something.
type Requests struct {
	// Deletes are reservations, by namespace and name.
	Deletes []string
	Patches []Patch
}

// RequestsOf are the requests behind what a dry run would release now: a delete for each reservation
// that no other entry needs, and the patches that remove the entries.
func RequestsOf(out *reconciler.Result) (*Requests, error) {
	leaving, pools := map[judge.ID]bool{}, map[string]*ippool.Pool{}
	entries, deletes := map[string][]ippool.Allocation{}, map[string]bool{}
	var items []*judge.Item
	for _, x := range out.Refused {
		if x.Gate.Why == reconciler.DryRunRefusal {
			items, leaving[x.ID()] = append(items, x.Item), true
		}
	}
	for _, it := range items {
		if it.Reservation != nil {
			deletes[it.Reservation.Ref()] = true
			continue
		}
		pools[it.Pool.Ref()] = it.Pool
		entries[it.Pool.Ref()] = append(entries[it.Pool.Ref()], *it.Allocation)
		for _, r := range it.Related() {
			stays := func(a *judge.Item) bool { return !leaving[a.ID()] }
			if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), stays) {
				deletes[r.Reservation.Ref()] = true
			}
		}
	}
	all := &Requests{Deletes: slices.Sorted(maps.Keys(deletes))}
	for _, ref := range slices.Sorted(maps.Keys(pools)) {
		for part := range slices.Chunk(entries[ref], ippool.MaxRemovals) {
			text, err := ippool.RemovePatch(pools[ref], part)
			if err != nil {
				return nil, err
			}
			p := Patch{Pool: ref}
			if err := json.Unmarshal(text, &p.Operations); err != nil {
				return nil, err
			}
			all.Patches = append(all.Patches, p)
		}
	}
	return all, nil
}
