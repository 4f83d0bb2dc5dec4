package reconciler

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Item is one allocation or reservation with its verdict. Most are in use, and
// nobody asks for more than that: what few need is found on demand.
type Item struct {
	Judged
	Pool        *ippool.Pool        // of an allocation
	Allocation  *ippool.Allocation  // nil for a reservation
	Reservation *ippool.Reservation // nil for an allocation
	more        *more
}

// more is what only some items have. Those that have nothing of their own share
// one.
type more struct {
	x        *index
	evidence *Evidence // of allocations that are not in use, and of reservations that stand alone
	with     []*Item
	one      [1]*Item // with, where it is one
	like     *Item    // whose verdict a reservation shares
	reading  reading
	// reserved is the reservation whose more this is, where its only allocation,
	// which is in use, has nothing else of its own: the two share one.
	reserved [1]*Item
}

func (m *more) addWith(it *Item) {
	if m.with == nil {
		m.with = m.one[:0]
	}
	m.with = append(m.with, it)
}

// ID identifies the item across looks.
func (it *Item) ID() ID {
	if it.Allocation != nil {
		return allocationID(it.Pool, it.Allocation)
	}
	return reservationID(it.Reservation)
}

// Object names the pool or reservation as "<namespace>/<name>".
func (it *Item) Object() string {
	if it.Allocation != nil {
		return it.Pool.Ref()
	}
	return it.Reservation.Ref()
}

// Address is the zero Addr where it cannot be read.
func (it *Item) Address() netip.Addr {
	if it.Allocation != nil {
		return it.Allocation.Address
	}
	return it.more.reading.address
}

// Network is that of a reservation, where it is known.
func (it *Item) Network() string {
	if it.Allocation != nil {
		return ""
	}
	return it.more.reading.network
}

// Key is that of an allocation.
func (it *Item) Key() string {
	if it.Allocation == nil {
		return ""
	}
	return it.Allocation.Key
}

// ContainerID is that of an allocation.
func (it *Item) ContainerID() string {
	if it.Allocation == nil {
		return ""
	}
	return it.Allocation.ContainerID
}

// PodRef is the owner as it is recorded.
func (it *Item) PodRef() string {
	if it.Allocation != nil {
		return it.Allocation.PodRef
	}
	return it.Reservation.PodRef
}

// IfName is the interface as it is recorded.
func (it *Item) IfName() string {
	if it.Allocation != nil {
		return it.Allocation.IfName
	}
	return it.Reservation.IfName
}

// With are the reservations of an allocation, or the allocations of a reservation.
func (it *Item) With() []*Item {
	if it.Allocation != nil && it.more.reserved[0] != nil {
		return it.more.reserved[:]
	}
	return it.more.with
}

// Evidence is what the verdict rests on; nil for a reservation that shares an
// allocation's verdict.
func (it *Item) Evidence() *Evidence {
	switch {
	case it.more.evidence != nil:
		return it.more.evidence
	case it.Allocation == nil:
		return nil
	}
	return it.more.x.evidenceOn(it.more.x.indexed(it.Pool), it.Allocation)
}

// Message says why, in a sentence.
func (it *Item) Message() string {
	if it.Reservation != nil && it.more.like != nil {
		return it.more.like.Message()
	}
	return it.more.x.rules.message(it.Judged, it.Evidence())
}

// Rule is the row of the verdict table that decided.
func (it *Item) Rule() string {
	if it.Reservation != nil && it.more.like != nil {
		return it.more.like.Rule()
	}
	return it.more.x.rules.text(it.Judged)
}

// Text is an item's address, "" where it cannot be read.
func (it *Item) Text() string {
	if !it.Address().IsValid() {
		return ""
	}
	return it.Address().String()
}

// Node is the node that the verdict is about, "" where there is no single one.
func (it *Item) Node() string { return it.Evidence().node() }

func (it *Item) owner() ippool.PodRef {
	if it.Allocation != nil {
		return it.Allocation.Owner
	}
	return it.Reservation.Owner
}

// reserved is a reservation that shares an allocation's verdict.
func (it *Item) reserved(r *ippool.Reservation) *Item {
	return &Item{Judged: it.Judged, Reservation: r,
		more: &more{x: it.more.x, like: it, with: []*Item{it}, reading: reading{address: it.Address()}}}
}

// node is the one node that the evidence is about, "" where there are several.
func (e *Evidence) node() string {
	switch {
	case e == nil:
		return ""
	case len(e.Nodes) == 1:
		return e.Nodes[0]
	case e.Phase != podstate.None && e.Pod != nil && e.Own != NotItsPod:
		return e.Pod.Node
	}
	return ""
}
