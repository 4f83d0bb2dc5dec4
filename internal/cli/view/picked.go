package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Picked is the part of a judgement that a filter picks, with the gates against each Stale item and what a run did.
type Picked struct {
	*judge.Judgement
	Filter Filter
	// Of has the counts before the filter.
	Of judge.Summary
	// Refused are the Stale items that are not released, by ID.
	Refused map[judge.ID]reconciler.Refused
	// Gates are the gates against releases. Those of the whole cluster come first.
	Gates []Gate

	// Ran is true for a run, and DryRun for a run that wrote nothing.
	Ran, DryRun bool
	Released    []*judge.Item        // by place
	Left        []reconciler.Refused // by place
	Repaired    []judge.Finding
	Unrepaired  []reconciler.Unrepaired
	// Requests are the requests that a run would send; nil unless the command prints them.
	Requests *Requests
}

// Pick picks of a judgement and the plan of a pass that starts now.
func Pick(j *judge.Judgement, plan *reconciler.Plan, f Filter) *Picked {
	return of(j, plan.Refused, plan.CommonGates, f)
}

// PickRun picks of a run. Its findings are those that were not repaired.
func PickRun(out *reconciler.Result, dryRun bool, f Filter) *Picked {
	r := of(out.Judgement, out.Refused, out.CommonGates, f)
	r.Ran, r.DryRun, r.Repaired, r.Unrepaired = true, dryRun, out.Repaired, out.Unrepaired
	r.Released = lists.Filter(out.Released, f.Item)
	slices.SortStableFunc(r.Released, judge.ByPlace)
	r.Left = lists.Filter(out.Refused, func(x reconciler.Refused) bool { return f.Item(x.Item) })
	slices.SortStableFunc(r.Left, func(a, b reconciler.Refused) int { return judge.ByPlace(a.Item, b.Item) })
	if !dryRun {
		r.Findings = lists.Filter(r.Findings, func(f judge.Finding) bool { return !slices.ContainsFunc(out.Repaired, f.Is) })
	}
	return r
}

func of(j *judge.Judgement, refused []reconciler.Refused, standing []reconciler.Gate, f Filter) *Picked {
	picked := *j
	picked.Allocations, picked.Reservations = lists.Filter(j.Allocations, f.Item), lists.Filter(j.Reservations, f.Item)
	picked.Findings = lists.Filter(j.Findings, func(x judge.Finding) bool { return f.Finding(&x) })
	refused = lists.Filter(refused, func(x reconciler.Refused) bool { return f.Item(x.Item) })
	standing = lists.Filter(standing, func(g reconciler.Gate) bool { return g.Pool == "" || f.Pool(g.Pool) })
	r := &Picked{Judgement: &picked, Filter: f, Of: j.Summary(), Refused: map[judge.ID]reconciler.Refused{},
		Gates: gatesOf(standing, refused)}
	for _, x := range refused {
		r.Refused[x.ID()] = x
	}
	return r
}

// IDs returns the identities of items.
func IDs(items []*judge.Item) map[judge.ID]bool {
	ids := map[judge.ID]bool{}
	for _, it := range items {
		ids[it.ID()] = true
	}
	return ids
}

// Pools returns the picked pools.
func (r *Picked) Pools() []*ippool.Pool {
	return lists.Filter(r.Observation.Pools, func(p *ippool.Pool) bool { return r.Filter.Pool(p.Ref()) })
}

// Summary counts the picked parts.
func (r *Picked) Summary() judge.Summary {
	sum := r.Judgement.Summary()
	sum.Pools = len(r.Pools())
	return sum
}

// UnknownKinds are the picked kinds of findings of which there may be more than were found.
func (r *Picked) UnknownKinds() []judge.Kind {
	return lists.Filter(r.Observation.UnknownKinds(), r.Filter.kind)
}

// Items returns the allocations and then the reservations.
func (r *Picked) Items() []*judge.Item { return slices.Concat(r.Allocations, r.Reservations) }

// RefusedOf returns the gates against the release of an item. isRefused is false where no gate stands. A reservation
// that shares an allocation's verdict shares its gates.
func (r *Picked) RefusedOf(it *judge.Item) (x reconciler.Refused, isRefused bool) {
	if shared := it.SharesVerdictOf(); shared != nil {
		it = shared
	}
	x, isRefused = r.Refused[it.ID()]
	return x, isRefused && x.Gate.Why != reconciler.DryRunRefusal
}

// CanRelease reports whether no gate stands against an item, or only gates that open by themselves.
func (r *Picked) CanRelease(it *judge.Item) bool {
	x, isRefused := r.RefusedOf(it)
	return !isRefused || !x.At().IsZero()
}

// Releasable returns what a run that was tried out releases, now or once its verdict is confirmed.
func (r *Picked) Releasable() []reconciler.Refused {
	return lists.Filter(r.Left, func(x reconciler.Refused) bool { return r.CanRelease(x.Item) })
}

// Pick returns the items of a verdict that have a row of their own.
func (r *Picked) Pick(v judge.Verdict) []*judge.Item {
	return lists.Filter(r.Items(), func(it *judge.Item) bool { return it.Verdict == v && OwnRow(it) })
}

// OwnRow reports whether an item has a row of its own. A reservation with an allocation is in its allocation's row.
func OwnRow(it *judge.Item) bool { return it.Allocation != nil || len(it.Related()) == 0 }

// ReleasedAddresses returns what -o name prints of a run: the addresses that it released, or that a run without
// isDryRun would release now or once their verdicts are confirmed.
func (r *Picked) ReleasedAddresses(isDryRun bool) []string {
	var found []netip.Addr
	for _, it := range r.Released {
		found = append(found, it.Address())
	}
	for i := 0; isDryRun && i < len(r.Left); i++ {
		if r.CanRelease(r.Left[i].Item) {
			found = append(found, r.Left[i].Address())
		}
	}
	return addressTexts(found)
}

// Addresses returns what -o name prints of check: addresses that need attention, or all. It skips what cannot be
// parsed.
func (r *Picked) Addresses(all bool) []string {
	var found []netip.Addr
	for _, it := range r.Items() {
		if all || it.Verdict != judge.InUse || len(r.Filter.Verdicts)+len(r.Filter.Reasons) > 0 {
			found = append(found, it.Address())
		}
	}
	for _, f := range r.Findings {
		for _, text := range strings.Split(f.IP, ",") {
			addr, _ := netip.ParseAddr(text)
			found = append(found, addr)
		}
	}
	return addressTexts(found)
}

func addressTexts(found []netip.Addr) (texts []string) {
	slices.SortFunc(found, netip.Addr.Compare)
	for _, addr := range slices.Compact(found) {
		if addr.IsValid() {
			texts = append(texts, addr.String())
		}
	}
	return texts
}

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

// gatesOf returns the gates in the order of the refusals, each once. Those that differ only in their time are one.
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

// RequestsOf returns the requests for what a dry run would release and repair now: a delete for each reservation that
// no other allocation needs, the patches that remove allocations, and those of repairs.
func RequestsOf(out *reconciler.Result) (*Requests, error) {
	var released []*judge.Item
	for _, x := range out.Refused {
		if x.Gate.Why == reconciler.DryRunRefusal {
			released = append(released, x.Item)
		}
	}
	isReleased, deletes := IDs(released), map[string]bool{}
	entries := map[*ippool.Pool][]ippool.Allocation{}
	for _, it := range released {
		if it.Reservation != nil {
			deletes[it.Reservation.Ref()] = true
			continue
		}
		entries[it.Pool] = append(entries[it.Pool], *it.Allocation)
		for _, r := range it.Related() {
			stays := func(a *judge.Item) bool { return !isReleased[a.ID()] }
			if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), stays) {
				deletes[r.Reservation.Ref()] = true
			}
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
func (r *Requests) repair(found []judge.Finding) error {
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
		entries[w.Pool], isNew[w.Pool] = append(entries[w.Pool], ippool.NewEntry{
			Key: w.Key, ContainerID: w.ContainerID, PodRef: w.PodRef, IfName: w.IfName, Replaces: w.Previous,
		}), w.NewPool
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
