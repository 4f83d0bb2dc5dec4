package judge

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"k8s.io/apimachinery/pkg/types"
)

// ReservationsOf are the names of all reservations that may belong to an allocation, whether they exist or not.
func ReservationsOf(f *facts.Facts, it *Item) (names []types.NamespacedName) {
	for _, r := range it.Related() {
		names = append(names, r.Reservation.NamespacedName)
	}
	for _, network := range it.Pool.Networks(f.NodeNames()) {
		name := ippool.ReservationName(network, it.Address())
		names = append(names, types.NamespacedName{Namespace: it.Pool.Namespace, Name: name})
	}
	return names
}

// PoolNamesOf are the names of the pools that may have, or get, an allocation which needs the same reservation as an
// item of earlier facts: those that exist, and those that an ADD of the item's networks creates with its address.
func PoolNamesOf(f *facts.Facts, it *Item) (names []types.NamespacedName) {
	for _, p := range it.poolsIn(f) {
		names = append(names, p.NamespacedName)
	}
	for _, x := range it.readingsIn(f) {
		for _, at := range f.DefinedAt(x.Network, x.Address) {
			if f.IsMissingAt(at) {
				name := ippool.PoolName(at.Network, at.Prefix)
				names = append(names, types.NamespacedName{Namespace: it.Namespace(), Name: name})
			}
		}
	}
	return names
}

// readingsIn are the networks of an item with its address: those that the name of its pool or reservation admits.
func (it *Item) readingsIn(f *facts.Facts) (found []facts.NameReading) {
	if it.Pool == nil {
		return f.ReadingsOf(it.Reservation)
	}
	for _, network := range it.Pool.Networks(f.NodeNames()) {
		found = append(found, facts.NameReading{Network: network, Address: it.Address()})
	}
	return found
}

// HasNoEntry reports whether an allocation's pool can be read and has nothing under the allocation's key.
func HasNoEntry(f *facts.Facts, it *Item) bool {
	p := f.PoolNamed(it.Object())
	return p != nil && p.Problem == "" && p.Find(it.Key()) == nil
}

// IsUnreadable reports whether an allocation's pool, or what is under the allocation's key, cannot be read.
func IsUnreadable(f *facts.Facts, it *Item) bool {
	p := f.PoolNamed(it.Object())
	if p == nil {
		return false
	}
	a := p.Find(it.Key())
	return p.Problem != "" || a != nil && a.Problem != ""
}
