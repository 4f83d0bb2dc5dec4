package judge

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"k8s.io/apimachinery/pkg/types"
)

// ReservationsOf are the names of all reservations that may be an allocation's:
// those seen, and those that may have been made since.
func (o *Observation) ReservationsOf(it *Item) []types.NamespacedName {
	var names []types.NamespacedName
	for _, r := range it.Related() {
		names = append(names, types.NamespacedName{Namespace: r.Reservation.Namespace, Name: r.Reservation.Name})
	}
	nodes := map[string]bool{}
	for n := range o.Nodes {
		nodes[n] = true
	}
	for _, network := range it.Pool.Networks(nodes) {
		names = append(names, types.NamespacedName{Namespace: it.Pool.Namespace, Name: ippool.ReservationName(network, it.Address())})
	}
	return names
}

// EntryRemoved reports whether an allocation's pool was read and has nothing under its key.
func (o *Observation) EntryRemoved(it *Item) bool {
	p := o.poolOf(it)
	return p != nil && p.Problem == "" && p.Find(it.Key()) == nil
}

// poolOf is an allocation's pool as it was read last, nil where there is none.
func (o *Observation) poolOf(it *Item) *ippool.Pool {
	for _, p := range o.Pools {
		if it.Pool != nil && p.Ref() == it.Object() {
			return p
		}
	}
	return nil
}

// PoolUnreadable reports whether an allocation's pool, or what is under its key, cannot be
// read: then nothing tells whose it is.
func (o *Observation) PoolUnreadable(it *Item) bool {
	p := o.poolOf(it)
	if p == nil {
		return false
	}
	a := p.Find(it.Key())
	return p.Problem != "" || a != nil && a.Problem != ""
}
