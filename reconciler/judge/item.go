package judge

import (
	"net/netip"
	"time"

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
	x        *Index
	evidence *Evidence // of allocations that are not in use, and of reservations that stand alone
	with     []*Item
	one      [1]*Item // with, where it is one
	like     *Item    // whose verdict a reservation shares
	reading  reading
	// WithReservation is the reservation whose more this is, where its only allocation,
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

// Rule is the row of the verdict table that decided, with its conditions.
func (it *Item) Rule() string {
	if it.Reservation != nil && it.more.like != nil {
		return it.more.like.Rule()
	}
	return it.more.x.rules.text(it.Judged, it.Evidence())
}

// Age is for how long this process has known an entry or reservation: whereabouts
// writes no time beside it. 0 if it does not know it.
func (it *Item) Age(now time.Time) time.Duration {
	s := &candidate{alloc: it.Allocation, reservation: it.Reservation}
	if it.Pool != nil {
		s.pool = &pool{Pool: it.Pool}
	}
	first := it.more.x.seen(s).First
	if first.IsZero() {
		return 0
	}
	return now.Sub(first).Round(time.Second)
}

// SharesVerdictOf is the allocation whose verdict a reservation shares; nil for none.
func (it *Item) SharesVerdictOf() *Item { return it.more.like }

// Text is an item's address, "" where it cannot be read.
func (it *Item) Text() string {
	if !it.Address().IsValid() {
		return ""
	}
	return it.Address().String()
}

// Node is the node that the verdict is about, "" where there is no single one.
func (it *Item) Node() string { return it.Evidence().node() }

func (it *Item) Owner() ippool.PodRef {
	if it.Allocation != nil {
		return it.Allocation.Owner
	}
	return it.Reservation.Owner
}

// WithReservation is a reservation that shares an allocation's verdict.
func (it *Item) WithReservation(r *ippool.Reservation) *Item {
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

// Attrs are an item's fields in the log.
func (it *Item) Attrs() []any {
	attrs := []any{"pool", it.Object(), "address", it.Address(), "podRef", it.PodRef(), "ifName", it.IfName(),
		"verdict", it.Verdict, "reason", it.Reason, "evidence", it.Message()}
	if it.Reservation != nil {
		attrs[0] = "reservation"
	}
	if it.ContainerID() != "" {
		attrs = append(attrs, "containerID", it.ContainerID())
	}
	return attrs
}

// ClaimedOn is the node of a pod of another name that carries the address; "" where none
// was found.
func (it *Item) ClaimedOn() string {
	if it.more.evidence == nil {
		return ""
	}
	return it.more.evidence.claimedOn
}

// Namesake is the pod by the owner's name; nil where there is none.
func (it *Item) Namesake() *podstate.Pod {
	owner := it.Owner()
	return it.more.x.pod(owner.Namespace, owner.Name)
}

// LastHeard is when the last agent was heard of those of the nodes that could run the
// sandbox; zero where none was.
func (it *Item) LastHeard() time.Time {
	var last time.Time
	for _, node := range it.Evidence().Nodes {
		if r := it.more.x.byNode[node]; r != nil && r.LeaseRenewed.After(last) {
			last = r.LeaseRenewed
		}
	}
	return last
}
