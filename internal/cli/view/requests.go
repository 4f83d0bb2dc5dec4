package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Patch is a JSON patch of an IPPool.
type Patch struct {
	Pool       string `json:"pool"`
	Operations []any  `json:"operations"`
}

// Requests are the requests by which a run releases and repairs. They are for a snapshot only.
type Requests struct {
	// Deletes are reservations, by namespace and name.
	Deletes []string `json:"deletes,omitempty"`
	Patches []Patch  `json:"patches,omitempty"`
	// Creates are the objects that repairs create: reservations, and pools that do not exist.
	Creates []any `json:"creates,omitempty"`
}

// NewRequests returns the requests for what a dry run would release and repair now: a delete for each reservation that
// no other allocation needs, the patches that remove allocations, and those of repairs.
func NewRequests(out *reconciler.Result) (*Requests, error) {
	var released []*judge.Item
	for _, x := range out.Refused {
		if x.Gate.Why == plan.DryRunRefusal {
			released = append(released, x.Item)
		}
	}
	isReleased, deletes := judge.IDs(released), map[string]bool{}
	entries := map[*ippool.Pool][]ippool.Allocation{}
	for _, it := range released {
		for _, r := range it.ReservationsWithout(isReleased) {
			deletes[r.Ref()] = true
		}
		if it.Allocation != nil {
			entries[it.Pool] = append(entries[it.Pool], *it.Allocation)
		}
	}
	all := &Requests{Deletes: slices.Sorted(maps.Keys(deletes))}
	for _, pool := range out.Observation.Pools {
		for part := range slices.Chunk(entries[pool], ippool.MaxRemovals) {
			text, err := ippool.RemovePatch(pool, part)
			if err := all.addPatch(pool, text, err); err != nil {
				return nil, err
			}
		}
	}
	return all, all.repair(out.Repaired)
}

// mostOperations is how many operations of a patch the API server takes.
const mostOperations = 10_000

// addPatch adds a patch. Where the pool has one already, its operations are added to that, because both test the same
// resourceVersion first: of two patches the second would fail. They are of different keys.
func (r *Requests) addPatch(pool *ippool.Pool, text []byte, err error) error {
	p := Patch{Pool: pool.Ref()}
	if err = cmp.Or(err, json.Unmarshal(text, &p.Operations)); err != nil {
		return err
	}
	for i := range r.Patches {
		if q := &r.Patches[i]; q.Pool == p.Pool && len(q.Operations)+len(p.Operations)-1 <= mostOperations {
			q.Operations = append(q.Operations, p.Operations[1:]...)
			return nil
		}
	}
	r.Patches = append(r.Patches, p)
	return nil
}

// repair adds the requests of repairs, as the executor makes them.
func (r *Requests) repair(found []findings.Finding) error {
	entries, isNew := map[*ippool.Pool][]ippool.NewEntry{}, map[*ippool.Pool]bool{}
	var pools []*ippool.Pool
	for i := range found {
		w := found[i].Repair
		if w.Key == "" {
			if w.PreviousReservation != nil {
				r.Deletes = append(r.Deletes, w.PreviousReservation.Ref())
			}
			r.Creates = append(r.Creates, w.NewReservation().AsNew().Object)
			continue
		}
		if entries[w.Pool] == nil {
			pools = append(pools, w.Pool)
		}
		entries[w.Pool], isNew[w.Pool] = append(entries[w.Pool], w.NewEntry()), w.NewPool
	}
	for _, pool := range pools {
		if isNew[pool] {
			r.Creates = append(r.Creates, pool.AsNew(entries[pool]).Object)
			continue
		}
		for part := range slices.Chunk(entries[pool], ippool.MaxRemovals) {
			text, err := ippool.WritePatch(pool, part)
			if err := r.addPatch(pool, text, err); err != nil {
				return err
			}
		}
	}
	return nil
}
