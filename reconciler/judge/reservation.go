package judge

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// unwritten begins the reason in the message of a missing reservation that --repair does not write.
const unwritten = "; it cannot be repaired, because "

// missingReservation is the finding on an allocation in use, or of a phantom, without a reservation. An allocation
// whose ADD may be in progress has none.
func (x *finder) missingReservation(it *Item) []Finding {
	if !x.Base().Reservations.IsKnown() {
		return nil
	}
	carried := it.Verdict == InUse && it.Reason != PodPending || it.Reason == PhantomPod
	if !carried || x.hasReservation(it) || x.j.reservedApart[it] {
		return nil
	}
	p, e := it.pool, it.Evidence()
	fenced := e.Sandbox == Ready && x.renewedBehindFence(0, e.Nodes)
	switch {
	case fenced:
	case e.Pod == nil || it.Reason == PhantomPod:
		b := x.carrier(p, it.Address())
		if b == nil || !x.isReady(&b.mention) || !x.isDoneWithADD(b) {
			return nil
		}
	case x.Now().Sub(e.Pod.CreatedAt) < addTimeLimit:
		return nil
	}
	f := Finding{Kind: MissingReservation, IP: it.Address().String(), Pool: p.ref, Pods: []string{it.PodRef()},
		ContainerIDs: []string{it.ContainerID()}, Node: e.node(),
		Message: fmt.Sprintf("%s of %s has no reservation: a pool with an overlapping range may assign it again",
			it.Address(), it.PodRef())}
	if why := unwritable(it); why != "" {
		f.Message += unwritten + why
		return []Finding{f}
	}
	f.Repair = &Repair{Pool: p.Pool, Address: it.Address(), Network: *p.network, ContainerID: it.ContainerID(),
		PodRef: it.PodRef(), IfName: it.IfName(), Node: f.Node, IsFenced: fenced}
	if _, r := x.reservedFor(f.Repair); r != nil {
		f.Message = fmt.Sprintf("%s carries %s, but its reservation names %s: a pool with an overlapping range may assign "+
			"it to that pod", it.PodRef(), it.Address(), r.PodRef)
		if f.Repair.PreviousReservation = r; !x.mayReplace(r, f.Repair) {
			f.Message += unwritten + "that pod's reservation may still be needed"
			f.Repair = nil
		}
	}
	return []Finding{f}
}

// unwritable is why --repair does not write the missing reservation of an allocation; "" if it does.
func unwritable(it *Item) string {
	switch {
	case it.pool.network == nil:
		return "the name of the pool admits more than one network"
	case it.Allocation.Claim != nil:
		return "a new one would lose the allocation's claim"
	}
	return ""
}

// hasReservation reports whether an allocation has its reservation. One of another network that the name of its pool
// admits is not its own, if the definition of a slice says the network.
func (x *finder) hasReservation(it *Item) bool {
	p := it.pool
	if len(it.related) == 0 || len(p.networks) < 2 || p.network == nil {
		return len(it.related) > 0
	}
	return slices.ContainsFunc(it.related, func(r *Item) bool {
		return r.Reservation.Name == ippool.ReservationName(*p.network, it.Address())
	})
}

// reservedFor is the existing reservation of a repair's address and network: its own, or another pod's.
func (x *finder) reservedFor(w *Repair) (own, other *ippool.Reservation) {
	r := x.reservationNamed(w.Pool.Namespace, ippool.ReservationName(w.Network, w.Address))
	if r != nil && r.PodRef != w.PodRef {
		return nil, r
	}
	return r, nil
}

// ReservationOf is the finding on the missing reservation of an entry that a repair has written. It is nil if the entry
// needs none or has one, or if another pod needs the existing one.
func ReservationOf(in *Index, f *Finding) *Finding {
	x := &finder{Index: in}
	if f.Repair == nil || f.Repair.Key == "" || !f.Repair.Overlapping {
		return nil
	}
	w, missing := *f.Repair, *f
	own, other := x.reservedFor(&w)
	if own != nil || other != nil && !x.mayReplace(other, &w) {
		return nil
	}
	w.Key, w.Previous, w.PreviousReservation = "", nil, other
	missing.Kind, missing.Repair = MissingReservation, &w
	missing.Message = fmt.Sprintf("the allocation of %s was repaired, and its reservation is missing", f.IP)
	return &missing
}

// mayReplace reports whether a repair may replace a reservation. No other entry needs it, no ADD in progress has
// created it, and only the repair's sandbox carries the address.
func (x *finder) mayReplace(r *ippool.Reservation, w *Repair) bool {
	p := x.poolNamed(w.Pool.Ref())
	if p == nil || p.Problem != "" {
		return false
	}
	b := x.carrier(p, w.Address)
	switch {
	case b == nil || !b.report.IsFresh(x.Now()) || b.ID != w.ContainerID || r.Problem != "" || r.Claim != nil:
		return false
	case !w.IsFenced && x.Now().Sub(r.Created) < addTimeLimit:
		return false
	}
	return !slices.ContainsFunc(x.entriesFor(w.Address), func(e entry) bool {
		isReplaced := w.Previous != nil && e.pool.ref == w.Pool.Ref() && e.Key == w.Previous.Key &&
			e.ContainerID == w.Previous.ContainerID
		return e.pool.Namespace == r.Namespace && e.pool.isOfNetwork(w.Network) && e.PodRef == r.PodRef && !isReplaced
	}) && x.unsupportedPoolOf(r, []nameReading{{w.Network, w.Address}}, true) == nil
}

// overlapping are the pools whose networks use overlapping ranges, by their readable definitions. Without any, other
// allocations of the network have reservations.
func (x *finder) overlapping(items []*Item) map[*ippool.Pool]bool {
	uses, defined, reserved := map[*ippool.Pool]bool{}, map[*pool]bool{}, map[string]bool{}
	for _, p := range x.Pools() {
		x.definedFor(p.Pool, func(n ippool.Network) {
			if n.Maps(p.Pool, p.networks) {
				defined[p], uses[p.Pool] = true, uses[p.Pool] || n.Overlapping
			}
		})
	}
	for _, it := range items {
		if it.Allocation != nil && len(it.related) > 0 {
			for _, n := range it.pool.networks {
				reserved[n] = true
			}
		}
	}
	for _, p := range x.Pools() {
		if !defined[p] {
			uses[p.Pool] = slices.ContainsFunc(p.networks, func(n string) bool { return reserved[n] })
		}
	}
	return uses
}
