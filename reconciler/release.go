package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// release makes the second check of each item and releases what is still Stale.
func (r *Reconciler) release(ctx context.Context, x *judge.Index, items []*judge.Item) executed {
	changes := make([]*change, 0, len(items))
	for _, it := range items {
		changes = append(changes, &change{Item: it, leases: it.LeaseNames(), pools: it.PoolNames()})
	}
	slices.SortStableFunc(changes, func(a, b *change) int { return judge.ByPlace(a.Item, b.Item) })
	return r.execute(ctx, x.Observation(), changes, false)
}

type releases struct{ *executor } // the kind of the changes that release items

// keys leaves out a known reservation, since its delete tests the UID and the resourceVersion.
func (e releases) keys(todo []*change) (need judge.LiveKeys) {
	for _, c := range todo {
		if c.err != nil && c.Reservation != nil {
			need.Reservations = append(need.Reservations, c.Reservation.NamespacedName)
		}
		if c.Item.Pool != nil && (c.err != nil || len(c.Related()) == 0) {
			need.Reservations = append(need.Reservations, e.x.ReservationsOf(c.Item)...)
		}
		for _, it := range slices.Concat(c.Related(), []*judge.Item{c.Item}) {
			if claim := it.IPAMClaim(); claim != nil {
				need.IPAMClaims = append(need.IPAMClaims, *claim)
			}
		}
		need.Pools = append(append(need.Pools, c.poolNames()...), e.x.PoolNamesOf(c.Item)...)
		if owner := c.Owner(); owner.UID == "" {
			need.Pods = append(need.Pods, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
		}
	}
	return need.Unique()
}

// judge judges items again, and recreates reservations that were deleted and that what is not Stale needs.
func (e releases) judge(todo []*change) (still checkedChanges) {
	addresses := make([]netip.Addr, 0, len(todo))
	for _, c := range todo {
		addresses = append(addresses, c.Address())
		for _, r := range c.Related() {
			addresses = append(addresses, r.Address()) // in a wide range the key gives another one
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	j := judge.JudgeAt(e.x, e.known, e.Options.Overrides, slices.Compact(addresses))
	now := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		now[it.ID()] = it
	}
	plan := e.known.passGates(j, e.Options) // the breaker has passed them
	refused := map[judge.ID]Refused{}
	for _, x := range plan.Refused {
		refused[x.ID()] = x
	}
	var written []*change
	for _, c := range todo {
		it, found := now[c.ID()]
		switch {
		case !found && c.state == patchSent && e.x.HasNoEntry(c.Item):
			written = append(written, c) // the write arrived, its answer did not
		case !found && c.isDeletedAlone(): // it is deleted again, unless rollback recreates it for an ADD that adopted it
			still = append(still, c)
		case !found || !it.HasClaimOf(c.Item): // its claim was not read live
			e.Log.Info("Not released: deleted or rewritten since the first check", c.Attrs()...)
		case it.Reservation != nil && len(it.Related()) > 0:
			e.Log.Info("Not released: the reservation has an allocation now", it.Attrs()...)
		case it.Verdict != judge.Stale:
			e.Log.Info("Not released: no longer Stale at the second check", it.Attrs()...)
			e.out.contradicted = append(e.out.contradicted, it)
		case !e.Options.isInScope(it):
			e.Log.Info("Not released: out of scope at the second check", it.Attrs()...)
		case refused[c.ID()].Item != nil:
			e.out.refused = append(e.out.refused, refused[c.ID()])
		default:
			c.Item = it
			still = append(still, c)
		}
	}
	e.rollback(todo, still, j)
	for _, c := range written {
		c.state = done
		e.finish(c)
	}
	toRelease := idsOf(still)
	for _, c := range still {
		c.deletes = c.reservations(toRelease)
	}
	return still
}

func idsOf[T interface{ ID() judge.ID }](all []T) map[judge.ID]bool {
	ids := map[judge.ID]bool{}
	for _, x := range all {
		ids[x.ID()] = true
	}
	return ids
}

// reservations are those to delete for a release: its own where it is one, or those that only released ones need.
func (c *change) reservations(toRelease map[judge.ID]bool) (all []*ippool.Reservation) {
	if c.Reservation != nil {
		return []*ippool.Reservation{c.Reservation}
	}
	for _, r := range c.Related() {
		isNeeded := slices.ContainsFunc(r.Related(), func(a *judge.Item) bool { return !toRelease[a.ID()] })
		if r.Verdict == judge.Stale && !isNeeded {
			all = append(all, r.Reservation)
		}
	}
	return all
}

func (e releases) refuse(changes []*change, err error) {
	why, detail := refusalOf(err), err.Error()
	switch {
	case errors.Is(err, errLeaseMissing):
		detail += "; run again"
	case why == NoLease:
		detail = leaseForbiddenDetail(e.namespace, e.leases)
	case why == LeaseBusy:
		detail = fmt.Sprintf("ADDs and DELs held Lease %s in namespace %s all the time; run again",
			strings.Join(e.leases, ", "), e.namespace)
	}
	for _, c := range changes {
		if why == Changed {
			detail = fmt.Sprintf("changed at each of %d tries: %v", max(c.tries, 1), err)
		}
		e.out.refused = append(e.out.refused, refusedBecause(c.Item, why, detail))
	}
}

// finish records the release of an item and its reservations, once where two allocations shared a reservation.
func (e releases) finish(c *change) {
	for _, r := range c.deleted {
		if id := r.Ref() + " " + r.UID; !e.recordedIDs[id] {
			e.recordedIDs[id] = true
			e.noteReleased(c.withReservation(r))
		}
	}
	e.noteReleased(c.Item)
	e.emit(Released{e.observation().Now, c.Item, c.deleted, e.Options.Because})
	c.deleted = nil
}

func (e releases) noteReleased(it *judge.Item) {
	e.out.released = append(e.out.released, it)
	if it.Allocation != nil || len(it.Related()) == 0 { // a reservation is part of the release of its allocation
		if d, ok := e.known.StandsFor(it, e.Clock.Now()); ok {
			e.out.delays = append(e.out.delays, Delay{it.Proven, d})
		}
	}
	attrs := append(it.Attrs(), "age", it.Age(e.observation().Now))
	if e.Options.ByHand {
		attrs = append(attrs, "isOverridden", it.IsOverridden(), "because", e.Options.Because)
	}
	e.Log.Info("Released", attrs...)
}

func (c *change) withReservation(res *ippool.Reservation) *judge.Item {
	for _, r := range c.Related() {
		if r.Reservation == res {
			return r
		}
	}
	return c.ReservationItem(res)
}
