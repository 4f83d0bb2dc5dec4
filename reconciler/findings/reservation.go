package findings

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// unwritten begins the reason in the message of a missing reservation that --repair does not write.
const unwritten = "; it cannot be repaired, because "

// needsNone is why no reservation is missing.
const needsNone = "its definition has enable_overlapping_ranges: false"

// missingReservation is the finding on an allocation in use, or of a phantom, without a reservation. An allocation
// whose ADD may be in progress has none.
func (x *finder) missingReservation(it *judge.Item) []Finding {
	if !x.Base().Reservations.IsKnown() {
		return nil
	}
	carried := it.Verdict == judge.InUse && it.Reason != judge.PodPending || it.Reason == judge.PhantomPod
	if !carried || x.hasReservation(it) || x.j.IsReservedApart(it) {
		return nil
	}
	p, e := it.IndexedPool(), it.Evidence()
	fenced := e.Sandbox == judge.Ready && x.renewedBehindFence(0, e.Nodes)
	switch {
	case fenced:
	case e.Pod == nil || it.Reason == judge.PhantomPod:
		b := x.carrier(p, it.Address())
		if b == nil || !x.IsReady(&b.Mention) || !x.isDoneWithADD(b) {
			return nil
		}
	case x.Now().Sub(e.Pod.CreatedAt) < judge.AddTimeLimit:
		return nil
	}
	f := Finding{Kind: MissingReservation, IP: it.Address().String(), Pool: p.Ref(), Pods: []string{it.PodRef()},
		ContainerIDs: []string{it.ContainerID()}, Node: e.Node(),
		Message: fmt.Sprintf("%s of %s has no reservation: a pool with an overlapping range may assign it again",
			it.Address(), it.PodRef())}
	switch why := x.unwritable(it); why {
	case "":
	case needsNone:
		return nil
	default:
		f.Message += unwritten + why
		return []Finding{f}
	}
	f.Repair = &Repair{Pool: p.Pool, Address: it.Address(), Network: *p.Network, ContainerID: it.ContainerID(),
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
func (x *finder) unwritable(it *judge.Item) string {
	p := it.IndexedPool()
	switch {
	case p.Network == nil:
		return "the name of the pool admits more than one network"
	case it.Allocation.Claim != nil:
		return "a new one would lose the allocation's claim"
	}
	return x.notReserving(p, *p.Network, x.definitionOfPod(it.Evidence().Pod, it.IfName(), it.Address()))
}

// notReserving is why it is not certain that ADDs of a pool's network reserve addresses for overlapping ranges; "" if
// it is. nad is the definition that the pod of the address names, nil if that is unknown: then all definitions of the
// pool must say so, since a tenant may have written any of them. An ADD of another network skips what is reserved, and
// no DEL of a network without overlapping ranges removes a reservation.
func (x *finder) notReserving(p *facts.Pool, network string, nad *ippool.NAD) string {
	by, reserve := 0, 0
	count := func(n ippool.Network) {
		if by++; n.Overlapping {
			reserve++
		}
	}
	if nad != nil {
		for _, n := range nad.Networks {
			if n.Name == network {
				count(n)
			}
		}
	}
	if by == 0 {
		x.DefinedFor(p.Pool, func(n ippool.Network) {
			if n.Maps(p.Pool, p.Admitted) {
				count(n)
			}
		})
	}
	switch {
	case by == 0:
		return "no readable definition says whether its network uses overlapping ranges"
	case reserve == 0:
		return needsNone
	case reserve < by:
		return "definitions of its network differ in enable_overlapping_ranges"
	}
	return ""
}

// hasReservation reports whether an allocation has its reservation. One of another network that the name of its pool
// admits is not its own, if the definition of a slice says the network.
func (x *finder) hasReservation(it *judge.Item) bool {
	p := it.IndexedPool()
	if len(it.Related()) == 0 || len(p.Admitted) < 2 || p.Network == nil {
		return len(it.Related()) > 0
	}
	return slices.ContainsFunc(it.Related(), func(r *judge.Item) bool {
		return r.Reservation.Name == ippool.ReservationName(*p.Network, it.Address())
	})
}

// reservedFor is the existing reservation of a repair's address and network: its own, or another pod's.
func (x *finder) reservedFor(w *Repair) (own, other *ippool.Reservation) {
	r := x.ReservationNamed(w.Pool.Namespace, ippool.ReservationName(w.Network, w.Address))
	if r != nil && r.PodRef != w.PodRef {
		return nil, r
	}
	return r, nil
}

// ReservationOf is the finding on the missing reservation of an entry that a repair has written. It is nil if the entry
// needs none or has one, or if another pod needs the existing one.
func ReservationOf(in *facts.Facts, f *Finding) *Finding {
	x := &finder{Facts: in}
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
	p := x.PoolNamed(w.Pool.Ref())
	if p == nil || p.Problem != "" {
		return false
	}
	b := x.carrier(p, w.Address)
	switch {
	case b == nil || !b.Report.IsFresh(x.Now()) || b.ID != w.ContainerID || r.Problem != "" || r.Claim != nil:
		return false
	case !w.IsFenced && x.Now().Sub(r.Created) < judge.AddTimeLimit:
		return false
	}
	return !slices.ContainsFunc(x.EntriesFor(w.Address), func(e facts.Entry) bool {
		isReplaced := w.Previous != nil && e.Pool.Ref() == w.Pool.Ref() && e.Key == w.Previous.Key &&
			e.ContainerID == w.Previous.ContainerID
		return e.Pool.Namespace == r.Namespace && e.Pool.IsOfNetwork(w.Network) && e.PodRef == r.PodRef && !isReplaced
	}) && x.UnsupportedPoolOf(r, []facts.NameReading{{Network: w.Network, Address: w.Address}}, true) == nil
}

// overlapping are the pools whose networks use overlapping ranges, by their readable definitions. Without any, other
// allocations of the network have reservations.
func (x *finder) overlapping(items []*judge.Item) map[*ippool.Pool]bool {
	uses, defined, reserved := map[*ippool.Pool]bool{}, map[*facts.Pool]bool{}, map[string]bool{}
	for _, p := range x.Pools() {
		x.DefinedFor(p.Pool, func(n ippool.Network) {
			if n.Maps(p.Pool, p.Admitted) {
				defined[p], uses[p.Pool] = true, uses[p.Pool] || n.Overlapping
			}
		})
	}
	for _, it := range items {
		if it.Allocation != nil && len(it.Related()) > 0 {
			for _, n := range it.IndexedPool().Admitted {
				reserved[n] = true
			}
		}
	}
	for _, p := range x.Pools() {
		if !defined[p] {
			uses[p.Pool] = slices.ContainsFunc(p.Admitted, func(n string) bool { return reserved[n] })
		}
	}
	return uses
}
