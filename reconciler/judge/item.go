package judge

import (
	"net/netip"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Item is one allocation or reservation with its verdict.
type Item struct {
	Judged
	Pool        *ippool.Pool        // of an allocation
	Allocation  *ippool.Allocation  // nil for a reservation
	Reservation *ippool.Reservation // nil for an allocation

	x               *Index
	in              *pool       // of an allocation
	reading         nameReading // of a reservation's name
	evidence        Evidence    // but for a reservation that shares an allocation's verdict
	related         []*Item
	sharedWith      *Item // whose verdict a reservation shares
	reservedUnknown bool  // the reservation of an allocation has a field that is not known
}

// ID identifies the item across passes.
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
	return it.reading.address
}

// Network is that of a reservation, where it is known.
func (it *Item) Network() string {
	if it.Allocation != nil {
		return ""
	}
	return it.reading.network
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

// Related are the reservations of an allocation, or the allocations of a reservation.
func (it *Item) Related() []*Item { return it.related }

// Evidence is what the verdict rests on; nil for a reservation that shares an
// allocation's verdict.
func (it *Item) Evidence() *Evidence {
	if it.sharedWith != nil {
		return nil
	}
	return &it.evidence
}

// NotKnown reports whether it is held only because agents do not report all of it: of a node
// that could run it, or what a sandbox carries.
func (it *Item) NotKnown() bool {
	e := it.Evidence()
	if it.Verdict != Held || e == nil || e.Claimant != "" && !e.ClaimUnread {
		return false
	}
	return e.Sandbox == NoFreshReport || it.Reason == ClaimedByOther
}

// Message says why, in a sentence.
func (it *Item) Message() string {
	if it.sharedWith != nil {
		return it.sharedWith.Message()
	}
	return it.x.rules.message(it.Judged, &it.evidence)
}

// Rule is the row of the verdict table that decided, with its conditions.
func (it *Item) Rule() string {
	if it.sharedWith != nil {
		return it.sharedWith.Rule()
	}
	return it.x.rules.text(it.Judged, &it.evidence)
}

// RuleID is the id of the row of the verdict table that decided, or of what overruled it.
func (it *Item) RuleID() string {
	if it.sharedWith != nil {
		return it.sharedWith.RuleID()
	}
	return it.x.rules.id(it.Judged)
}

// Age is for how long this process has known an entry or reservation: whereabouts
// writes no time beside it. 0 if it does not know it.
func (it *Item) Age(now time.Time) time.Duration {
	first := it.x.seen(&candidate{alloc: it.Allocation, reservation: it.Reservation, pool: it.in}).First
	if first.IsZero() {
		return 0
	}
	return now.Sub(first).Round(time.Second)
}

// SharesVerdictOf is the allocation whose verdict a reservation shares; nil for none, and
// for an allocation.
func (it *Item) SharesVerdictOf() *Item { return it.sharedWith }

// Text is an item's address, "" where it cannot be read.
func (it *Item) Text() string {
	if !it.Address().IsValid() {
		return ""
	}
	return it.Address().String()
}

// Node is the node that the verdict is about, "" where there is no single one.
func (it *Item) Node() string { return it.Evidence().node() }

// Owner is the pod that is recorded.
func (it *Item) Owner() ippool.PodRef {
	if it.Allocation != nil {
		return it.Allocation.Owner
	}
	return it.Reservation.Owner
}

// ReservationItem is a reservation that shares an allocation's verdict.
func (it *Item) ReservationItem(r *ippool.Reservation) *Item {
	return &Item{Judged: it.Judged, Reservation: r, x: it.x, sharedWith: it, related: []*Item{it}, reading: nameReading{address: it.Address()}}
}

// node is the one node that the evidence is about, "" where there are several.
func (e *Evidence) node() string {
	switch {
	case e == nil:
		return ""
	case len(e.Nodes) == 1:
		return e.Nodes[0]
	case e.Phase != podstate.None && e.Pod != nil && e.Ownership != NotItsPod:
		return e.Pod.Node
	}
	return ""
}

// Attrs are an item's fields in the log.
func (it *Item) Attrs() []any {
	attrs := []any{"pool", it.Object(), "address", it.Address(), "podRef", it.PodRef(), "ifName", it.IfName(),
		"verdict", it.Verdict, "reason", it.Reason, "rule", it.RuleID(), "evidence", it.Message()}
	if it.Reservation != nil {
		attrs[0] = "reservation"
	}
	if it.ContainerID() != "" {
		attrs = append(attrs, "containerID", it.ContainerID())
	}
	return attrs
}

// ClaimedOn is the node of a pod of another name that carries the address; "" where none was
// found, and for an allocation in use.
func (it *Item) ClaimedOn() string {
	if it.Allocation != nil && it.Verdict == InUse {
		return ""
	}
	return it.evidence.claimedOn
}

// PodByOwnerName is the pod by the owner's name; nil where there is none.
func (it *Item) PodByOwnerName() *podstate.Pod {
	owner := it.Owner()
	return it.x.pod(owner.Namespace, owner.Name)
}

// LastRenewed is when the last agent was heard of those of the nodes that could run the
// sandbox; zero where none was.
func (it *Item) LastRenewed() time.Time {
	var last time.Time
	for _, node := range it.Evidence().Nodes {
		if r := it.x.byNode[node]; r != nil && r.LeaseRenewed.After(last) {
			last = r.LeaseRenewed
		}
	}
	return last
}
