package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"k8s.io/apimachinery/pkg/types"
)

// PausedPool is the paused pool that an item is in, or for a reservation one
// that has its address.
func (it *Item) PausedPool() *ippool.Pool {
	for _, p := range it.pools() {
		if p.Paused {
			return p
		}
	}
	return nil
}

// pools are those that have an allocation, or that could have a reservation's.
func (it *Item) pools() []*ippool.Pool {
	if it.Pool != nil {
		return []*ippool.Pool{it.Pool}
	}
	return it.poolsWith()
}

// poolsWith are the pools that an item is about: an allocation's own, and those
// that may have, or get, an allocation that needs the same reservation.
func (it *Item) poolsWith() []*ippool.Pool {
	var found []*ippool.Pool
	namespace := ""
	if it.Pool != nil {
		found, namespace = []*ippool.Pool{it.Pool}, it.Pool.Namespace
		if len(it.Related()) == 0 {
			return found
		}
	} else {
		namespace = it.Reservation.Namespace
	}
	for _, p := range it.x.poolsAt(it.Address()) {
		if p.Namespace == namespace && (it.Pool == nil || p.Name != it.Pool.Name && p.mayShare(it)) {
			found = append(found, p.Pool)
		}
	}
	return found
}

// mayShare reports whether an entry of the pool may need a reservation of the item.
func (p *pool) mayShare(it *Item) bool {
	return slices.ContainsFunc(it.Related(), func(r *Item) bool { return p.isOfNetwork(r.Network()) })
}

// LeaseNames are the Leases that ADD and DEL take for the pools that an item is about.
func (it *Item) LeaseNames() []string {
	names := []string{ippool.SharedLease}
	for _, p := range it.poolsWith() {
		names = append(names, p.LeaseNames()...)
	}
	return sortedUnique(names)
}

// PoolNames are the pools that an item is about.
func (it *Item) PoolNames() []types.NamespacedName {
	var names []types.NamespacedName
	for _, p := range it.poolsWith() {
		names = append(names, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	return names
}

// StaleItems are the allocations and reservations of which the verdict is Stale.
func (j *Judgement) StaleItems() []*Item {
	var found []*Item
	for _, items := range [][]*Item{j.Allocations, j.Reservations} {
		for _, it := range items {
			if it.Verdict == Stale {
				found = append(found, it)
			}
		}
	}
	return found
}

// Namespace is that of the pool or reservation, where whereabouts' Leases are, too.
func (it *Item) Namespace() string {
	if it.Pool != nil {
		return it.Pool.Namespace
	}
	return it.Reservation.Namespace
}
