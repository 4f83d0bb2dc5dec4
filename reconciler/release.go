package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// releaseOutcome is what became of the releases of a pass, in the order in which they ended.
type releaseOutcome struct {
	released []*judge.Item
	delays   []Delay
	refused  []plan.Refused
}

// release makes the second check of each item and releases what is still Stale.
func (r *Reconciler) release(ctx context.Context, f *facts.Facts, items []*judge.Item) releaseOutcome {
	changes := make([]*apply.Release, 0, len(items))
	for _, it := range items {
		changes = append(changes, apply.NewRelease(it))
	}
	slices.SortStableFunc(changes, func(a, b *apply.Release) int { return judge.ByPlace(a.Item, b.Item) })
	live := &liveFacts{r: r, first: f.Observation(), known: r.Process.Known}
	rules := &releaseRules{r: r, live: live, recordedIDs: map[string]bool{}}
	apply.Execute(ctx, r.applyDeps(live), apply.Terms{Activity: "Releasing"}, rules, changes)
	r.Process.Known = live.known
	r.Process.Known.Memory = live.known.Without(rules.contradicted)
	return rules.out
}

func (r *Reconciler) applyDeps(live *liveFacts) apply.Deps {
	return apply.Deps{
		Reader: live, Leases: r.Leases, Clock: r.Clock, Jitter: r.Jitter, Log: r.Log, Progress: r.Progress,
	}
}

// releaseRules judge releases again, and record what becomes of them.
type releaseRules struct {
	r           *Reconciler
	live        *liveFacts
	recordedIDs map[string]bool // reservations whose release is recorded
	out         releaseOutcome
	// contradicted are the items that the second check judged otherwise: after the writes their wait starts again.
	contradicted []*judge.Item
}

// Recheck judges items again, by the gates of the pass without its breaker, which has let them pass.
func (e *releaseRules) Recheck(f *facts.Facts, todo []*apply.Release) apply.Checked[*apply.Release] {
	j := judge.JudgeAt(f, e.live.known, e.r.Options.Overrides, addressesOf(todo))
	now := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		now[it.ID()] = it
	}
	refused := map[judge.ID]plan.Refused{}
	for _, x := range plan.PassGates(j, e.live.known.Memory, e.live.known.State, e.r.Options).Refused {
		refused[x.ID()] = x
	}
	var stand, arrived []*apply.Release
	for _, c := range todo {
		it := now[c.ID()]
		switch c.Recheck(f, it) {
		case apply.Arrived:
			arrived = append(arrived, c)
		case apply.MayBeAdopted:
			stand = append(stand, c)
		case apply.Rewritten:
			e.r.Log.Info("Not released: deleted or rewritten since the first check", c.Item.Attrs()...)
		case apply.HasEntry:
			e.r.Log.Info("Not released: the reservation has an allocation now", it.Attrs()...)
		case apply.Contradicted:
			e.r.Log.Info("Not released: no longer Stale at the second check", it.Attrs()...)
			e.contradicted = append(e.contradicted, it)
		case apply.StillStale:
			switch x, isRefused := refused[c.ID()]; {
			case !e.r.Options.IsInScope(it):
				e.r.Log.Info("Not released: out of scope at the second check", it.Attrs()...)
			case isRefused:
				e.out.refused = append(e.out.refused, x)
			case c.Item.Proven && !it.Proven: // the breaker has not counted it
				e.out.refused = append(e.out.refused, refusedBecause(it, plan.AwaitingConfirmation,
					"it was proven at the first check, and is not at the second; the next pass counts it"))
			default:
				c.Item = it
				stand = append(stand, c)
			}
		}
	}
	return apply.CheckedReleases(f, j, todo, stand, arrived)
}

// addressesOf are the addresses of releases and of what they are judged with.
func addressesOf(todo []*apply.Release) []netip.Addr {
	addresses := make([]netip.Addr, 0, len(todo))
	for _, c := range todo {
		addresses = append(addresses, c.Item.Address())
		for _, r := range c.Item.Related() {
			addresses = append(addresses, r.Address()) // its name may be read in several ways
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}

// FollowUps is none: the reservations are deleted before.
func (e *releaseRules) FollowUps(*facts.Facts, *apply.Release) []*apply.Release { return nil }

// GaveUp records why an item is not released.
func (e *releaseRules) GaveUp(c *apply.Release, f apply.Failure) {
	why, detail := refusalOf(f.Err), f.Err.Error()
	switch {
	case errors.Is(f.Err, apply.ErrLeaseMissing):
		detail += "; run again"
	case why == plan.NoLease:
		detail = leaseForbiddenDetail(c.Item.Namespace(), f.Leases)
	case why == plan.LeaseBusy:
		detail = fmt.Sprintf("ADDs and DELs held Lease %s in namespace %s all the time; run again",
			strings.Join(f.Leases, ", "), c.Item.Namespace())
	case why == plan.Changed:
		detail = fmt.Sprintf("changed at each of %d tries: %v", max(f.Tries, 1), f.Err)
	}
	e.out.refused = append(e.out.refused, refusedBecause(c.Item, why, detail))
}

// Finished records the release of an item and its reservations, once where two allocations shared a reservation.
func (e *releaseRules) Finished(c *apply.Release) {
	for _, r := range c.Deleted() {
		if id := r.Ref() + " " + r.UID; !e.recordedIDs[id] {
			e.recordedIDs[id] = true
			e.noteReleased(withReservation(c.Item, r))
		}
	}
	e.noteReleased(c.Item)
	e.r.emit(Released{e.live.observation().Now, c.Item, c.Deleted(), e.r.Because})
}

func (e *releaseRules) noteReleased(it *judge.Item) {
	e.out.released = append(e.out.released, it)
	if it.Allocation != nil || len(it.Related()) == 0 { // a reservation is part of the release of its allocation
		if d, ok := e.live.known.StandsFor(it, e.r.Clock.Now()); ok {
			e.out.delays = append(e.out.delays, Delay{it.Proven, d})
		}
	}
	attrs := append(it.Attrs(), "age", it.Age(e.live.observation().Now))
	if e.r.Options.ByHand {
		attrs = append(attrs, "isOverridden", it.IsOverridden(), "because", e.r.Because)
	}
	e.r.Log.Info("Released", attrs...)
}

// withReservation is the item of a reservation that was deleted for an item.
func withReservation(it *judge.Item, res *ippool.Reservation) *judge.Item {
	for _, r := range it.Related() {
		if r.Reservation == res {
			return r
		}
	}
	return it.ReservationItem(res)
}
