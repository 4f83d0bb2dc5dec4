package judge

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Item is an allocation or reservation with its verdict.
type Item struct {
	Decision
	Pool        *ippool.Pool        // of an allocation
	Allocation  *ippool.Allocation  // nil for a reservation
	Reservation *ippool.Reservation // nil for an allocation

	j             *Judgement
	pool          *facts.Pool        // of an allocation
	reading       *facts.NameReading // of a reservation's name; nil for an allocation, and if there is none
	evidence      *Evidence          // nil for a reservation that shares an allocation's verdict
	related       []*Item
	verdictSource *Item // whose verdict a reservation shares
}

// ID identifies an item across passes. An entry that whereabouts has rewritten has another ID.
type ID struct {
	Object      string // "<namespace>/<name>" of the pool or reservation
	UID         string // of the reservation; "" for an allocation
	Key         string
	ContainerID string
	PodRef      string
	IfName      string
}

// ID identifies the item across passes.
func (it *Item) ID() ID {
	if r := it.Reservation; r != nil {
		return ID{Object: r.Ref(), UID: r.UID, PodRef: r.PodRef, IfName: r.IfName}
	}
	a := it.Allocation
	return ID{Object: it.pool.Ref(), Key: a.Key, ContainerID: a.ContainerID, PodRef: a.PodRef, IfName: a.IfName}
}

// IDs returns the identities of items, or of what has one.
func IDs[T interface{ ID() ID }](all []T) map[ID]bool {
	ids := make(map[ID]bool, len(all))
	for _, x := range all {
		ids[x.ID()] = true
	}
	return ids
}

// Namespace is that of the pool or reservation, and of whereabouts' Leases.
func (it *Item) Namespace() string {
	if it.Reservation != nil {
		return it.Reservation.Namespace
	}
	return it.Pool.Namespace
}

// Object names the pool or reservation as "<namespace>/<name>".
func (it *Item) Object() string {
	if it.Reservation != nil {
		return it.Reservation.Ref()
	}
	return it.Pool.Ref()
}

// record is what an entry and a reservation have in common.
func (it *Item) record() (podRef, ifName string, owner ippool.PodRef) {
	if r := it.Reservation; r != nil {
		return r.PodRef, r.IfName, r.Owner
	}
	return it.Allocation.PodRef, it.Allocation.IfName, it.Allocation.Owner
}

// PodRef is the owner as it is recorded.
func (it *Item) PodRef() string {
	podRef, _, _ := it.record()
	return podRef
}

// IfName is the interface as it is recorded.
func (it *Item) IfName() string {
	_, ifName, _ := it.record()
	return ifName
}

// Owner is the pod that is recorded.
func (it *Item) Owner() ippool.PodRef {
	_, _, owner := it.record()
	return owner
}

// IPAMClaim is the IPAMClaim that is recorded; nil for none.
func (it *Item) IPAMClaim() *types.NamespacedName {
	if it.Reservation != nil {
		return it.Reservation.Claim
	}
	return it.Allocation.Claim
}

// HasClaimOf reports whether two items name the same IPAMClaim, or none.
func (it *Item) HasClaimOf(other *Item) bool {
	a, b := it.IPAMClaim(), other.IPAMClaim()
	return a == b || a != nil && b != nil && *a == *b
}

// Address is the item's address; the zero Addr if it cannot be read. That of an entry in an unsupported range is the
// one that whereabouts reads, and the entry may have been written for another one.
func (it *Item) Address() netip.Addr {
	switch {
	case it.Allocation != nil:
		return it.Allocation.Address
	case it.reading != nil:
		return it.reading.Address
	}
	return netip.Addr{}
}

// Text is the item's address, "" if it cannot be read.
func (it *Item) Text() string {
	if !it.Address().IsValid() {
		return ""
	}
	return it.Address().String()
}

// Network is the network of a reservation, if it is known.
func (it *Item) Network() string {
	if it.reading == nil {
		return ""
	}
	return it.reading.Network
}

// Key is the key of an allocation, "" for a reservation.
func (it *Item) Key() string {
	if it.Allocation == nil {
		return ""
	}
	return it.Allocation.Key
}

// ContainerID is that of an allocation, "" for a reservation.
func (it *Item) ContainerID() string {
	if it.Allocation == nil {
		return ""
	}
	return it.Allocation.ContainerID
}

// IndexedPool is the pool of an allocation with what its entries are found by; nil for a reservation.
func (it *Item) IndexedPool() *facts.Pool { return it.pool }

// Related are the reservations of an allocation, or the allocations of a reservation.
func (it *Item) Related() []*Item { return it.related }

// ReservationsWithout returns the reservations that are deleted with the item if these items are released: the item
// itself where it is one, or those of an allocation that only released items need.
func (it *Item) ReservationsWithout(isReleased map[ID]bool) (all []*ippool.Reservation) {
	if it.Reservation != nil {
		return []*ippool.Reservation{it.Reservation}
	}
	for _, r := range it.related {
		isNeeded := slices.ContainsFunc(r.related, func(a *Item) bool { return !isReleased[a.ID()] })
		if r.Verdict == Stale && !isNeeded {
			all = append(all, r.Reservation)
		}
	}
	return all
}

// SharesVerdictOf is the allocation whose verdict a reservation shares; nil for none.
func (it *Item) SharesVerdictOf() *Item { return it.verdictSource }

// Evidence is what the verdict rests on; nil for a reservation that shares an allocation's verdict.
func (it *Item) Evidence() *Evidence { return it.evidence }

// evidenceSource is the item whose evidence decided.
func (it *Item) evidenceSource() *Item { return cmp.Or(it.verdictSource, it) }

// Message explains the verdict in a sentence.
func (it *Item) Message() string {
	text := it.evidenceSource().fill(it.decidingRow().say)
	if it.IsOverridden() {
		text += "; a person asserts that nothing uses the address"
	}
	return text
}

// Rule is the row of the verdict table that decided, with its conditions.
func (it *Item) Rule() string { return it.text(it.evidenceSource().Evidence()) }

// RuleID is the ID of the row that decided, or of the row that overruled it.
func (it *Item) RuleID() string { return it.decidingRow().id }

// Node is the node that the verdict is about, "" for none or several.
func (it *Item) Node() string { return it.Evidence().Node() }

// IsUndetermined reports whether the item is held only because a node has no fresh report, or a report lacks a
// sandbox's addresses. An item that is held because a source is unknown is not.
func (it *Item) IsUndetermined() bool {
	e := it.evidence
	if it.Verdict != Held || e == nil || e.NodesUnknown || !it.j.facts.Base().Reports.IsKnown() ||
		e.Rival != "" && !e.RivalUnread {
		return false
	}
	return e.Sandbox == NoFreshReport || it.Reason == ClaimedByOther
}

// Age is how long ago this process first observed the item, 0 if it has not. whereabouts stores no time.
func (it *Item) Age(now time.Time) time.Duration {
	first := it.j.past.Of(it.ID()).First
	if first.IsZero() {
		return 0
	}
	return now.Sub(first).Round(time.Second)
}

// ReservationItem is the item of a reservation that shares an allocation's verdict.
func (it *Item) ReservationItem(r *ippool.Reservation) *Item {
	return &Item{Decision: it.Decision, Reservation: r, j: it.j, verdictSource: it, related: []*Item{it},
		reading: &facts.NameReading{Address: it.Address()}}
}

// Attrs are the item's keys and values in the log.
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

// ClaimedOn is the node of another pod that carries the address; "" for none, and for an allocation in use.
func (it *Item) ClaimedOn() string {
	if it.evidence == nil || it.evidence.rival == nil || it.Allocation != nil && it.Verdict == InUse {
		return ""
	}
	return it.evidence.rival.podNode
}

// PodByOwnerName is the pod by the owner's name; nil if it does not exist.
func (it *Item) PodByOwnerName() *podstate.Pod {
	owner := it.Owner()
	return it.j.facts.Pod(owner.Namespace, owner.Name)
}

// LastRenewed is when an agent on a node that could run the sandbox last renewed its Lease; zero for never.
func (it *Item) LastRenewed() (last time.Time) {
	for _, node := range it.Evidence().Nodes {
		if r := it.j.facts.Report(node); r != nil && r.LeaseRenewedAt.After(last) {
			last = r.LeaseRenewedAt
		}
	}
	return last
}

// IsAbout reports whether the item is of an address.
func (it *Item) IsAbout(addr netip.Addr) bool { return addr == it.Address() }

func (it *Item) isOfNetwork(network string) bool {
	if it.pool != nil {
		return it.pool.MayBeOfAny || it.pool.IsOfNetwork(network)
	}
	return network == it.Network()
}

// mayBeOn reports whether an interface of a definition may be on the item's network. nil is a definition that cannot be
// read.
func (it *Item) mayBeOn(nad *ippool.NAD) bool {
	return nad == nil ||
		slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return it.isOfNetwork(n.Name) })
}

// PausedPool is the paused pool of an allocation, or a paused pool with the address of a reservation; nil for none.
func (it *Item) PausedPool() *ippool.Pool {
	for _, p := range it.pools() {
		if p.Paused && (it.Pool == nil || it.Pool == p) {
			return p
		}
	}
	return nil
}

// pools are an allocation's pool, and the pools that may have, or get, an allocation which needs the same reservation:
// also one that an ADD is about to create.
func (it *Item) pools() []*ippool.Pool { return it.poolsIn(it.j.facts) }

func (it *Item) poolsIn(f *facts.Facts) (found []*ippool.Pool) {
	if it.Pool != nil {
		found = append(found, it.Pool)
	}
	for _, p := range f.PoolsAt(it.Address()) {
		if p.Namespace == it.Namespace() && (it.Pool == nil || p.Name != it.Pool.Name && it.pool.MayShareNetwork(p)) {
			found = append(found, p.Pool)
		}
	}
	return found
}

// LeaseNames are the Leases that ADD and DEL take for the item's pools.
func (it *Item) LeaseNames() []string {
	names := []string{ippool.SharedLease}
	for _, p := range it.pools() {
		names = append(names, p.LeaseNames()...)
	}
	return facts.SortedUnique(names)
}

// PoolNames are the names of the item's pools.
func (it *Item) PoolNames() (names []types.NamespacedName) {
	for _, p := range it.pools() {
		names = append(names, p.NamespacedName)
	}
	return names
}

// ByPlace orders items by pool or name, then address.
func ByPlace(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Object(), b.Object()), a.Address().Compare(b.Address()), cmp.Compare(a.Key(), b.Key()))
}
