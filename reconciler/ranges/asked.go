package ranges

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// asked are who has the addresses of a proposal, in its networks and in those of the pools that it replaces. What is
// stale has none.
type asked struct {
	*holders
	p         *Proposal
	namespace string // of the pools of whereabouts
	networks  map[string]bool
	stale     map[netip.Addr][]string // the podrefs and container IDs of stale allocations
}

func newAsked(j *findings.Assessment, p *Proposal) *asked {
	x := &asked{holders: holdersOf(j, p.hasInRange), p: p, networks: map[string]bool{}, stale: map[netip.Addr][]string{}}
	x.namespace = x.f.Namespace()
	for _, n := range p.Networks {
		x.networks[n.Name] = true
	}
	for _, name := range p.Definitions {
		if nad := x.f.NAD(name); nad != nil {
			for _, n := range nad.Networks {
				x.networks[n.Name] = true
			}
		}
	}
	for _, pool := range p.Pools {
		x.namespace = pool.Namespace
		if own := x.f.PoolNamed(pool.Ref()); own != nil && own.Network != nil {
			x.networks[*own.Network] = true
		}
	}
	x.keepAsked()
	for _, n := range p.Networks {
		if p.hasInRange(n.Gateway) {
			x.carriers[n.Gateway] = append(x.carriers[n.Gateway],
				usage.Carrier{Kind: usage.GatewayCarrier, Name: strings.Join(p.Definitions, ", ")})
		}
	}
	return x
}

// keepAsked drops who has an address of another network, or has it no more.
func (x *asked) keepAsked() {
	for addr, all := range x.entries {
		x.entries[addr] = slices.DeleteFunc(all, func(it *judge.Item) bool {
			isAsked := x.isOn(it.IndexedPool())
			if isAsked && it.Verdict == judge.Stale {
				x.stale[addr] = append(x.stale[addr], it.PodRef(), it.ContainerID())
			}
			return !isAsked || it.Verdict == judge.Stale
		})
	}
	for addr, all := range x.alone {
		x.alone[addr] = slices.DeleteFunc(all, func(it *judge.Item) bool { return it.Verdict == judge.Stale })
	}
	for addr, all := range x.sandboxes {
		x.sandboxes[addr] = slices.DeleteFunc(all, func(b facts.SandboxAddress) bool {
			return !x.networks[b.NetworkName] || slices.Contains(x.stale[addr], b.ID)
		})
	}
	for addr, all := range x.carriers {
		x.carriers[addr] = slices.DeleteFunc(all, func(c usage.Carrier) bool { return !x.isAsked(c, addr) })
	}
}

// hasInRange reports whether an address is in a range of the proposal.
func (p *Proposal) hasInRange(addr netip.Addr) bool {
	return addr.IsValid() && slices.ContainsFunc(p.Networks, func(n ippool.Network) bool {
		return slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
	})
}

// hasGateway reports whether a proposal names a gateway.
func (p *Proposal) hasGateway() bool {
	return slices.ContainsFunc(p.Networks, func(n ippool.Network) bool { return n.Gateway.IsValid() })
}

// isOn reports whether a pool is, or may be, of a network of the proposal or of the pools that it replaces.
func (x *asked) isOn(p *facts.Pool) bool {
	isToday := func(today *usage.Pool) bool { return today.Ref() == p.Ref() }
	if slices.ContainsFunc(x.p.Pools, isToday) {
		return true
	}
	for name := range x.networks {
		if p.Records(name) {
			return true
		}
	}
	return false
}

// isAsked reports whether a carrier has its address, or may have it, on these networks. Another network of whereabouts
// may have the same addresses. What a pod carries by an allocation that is stale, it does not carry any more.
func (x *asked) isAsked(c usage.Carrier, addr netip.Addr) bool {
	switch {
	case c.Kind == usage.PodCarrier && len(x.networks) == 1 && slices.Contains(x.stale[addr], c.Name):
		return false
	case c.Kind == usage.GatewayCarrier && x.isReplaced(c.Definition) && x.p.hasGateway():
		return false // the new definition says which one it is
	case c.IsReported:
		return x.networks[c.ReportedNetwork]
	case c.Definition == nil:
		return true
	}
	return x.isReplaced(c.Definition) ||
		slices.ContainsFunc(c.Definition.Networks, func(n ippool.Network) bool { return x.networks[n.Name] })
}

// isReplaced reports whether the proposal replaces a definition.
func (x *asked) isReplaced(nad *ippool.NAD) bool {
	return slices.Contains(x.p.Definitions, nad.String())
}

// reserved are the reservations because of which ADDs of a network skip an address, and all of the addresses. What is
// being deleted or is stale protects nothing for long, so staying lacks it, but an ADD skips it until it is released.
func (x *asked) reserved(n ippool.Network) (staying map[netip.Addr]*ippool.Reservation, all *netipx.IPSet) {
	staying = map[netip.Addr]*ippool.Reservation{}
	if !n.Overlapping {
		return staying, &netipx.IPSet{}
	}
	addresses := map[netip.Addr]bool{}
	for _, it := range x.j.Reservations {
		r := it.Reservation
		addr, ok := ippool.ReservedAddress(r.Name, n.Name)
		if !ok || r.Namespace != x.namespace {
			continue
		}
		addresses[addr] = true
		if !r.Deleting && it.Verdict != judge.Stale {
			staying[addr] = r
		}
	}
	return staying, setOf(addresses)
}

// recordedIn are the addresses of the entries of pools that whereabouts reads, and of those the addresses that only
// stale ones have. It reads no entry with a larger key than an int64 (v0.9.4, pkg/storage/kubernetes/ipam.go,
// toIPReservationList).
func (x *asked) recordedIn(pools map[string]bool) (all, leaving *netipx.IPSet) {
	entries, staying := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, it := range x.j.Allocations {
		addr := it.Address()
		if !addr.IsValid() || !pools[it.Pool.Ref()] {
			continue
		}
		if _, err := strconv.ParseInt(it.Allocation.Key, 10, 64); err == nil {
			entries[addr] = true
			staying[addr] = staying[addr] || it.Verdict != judge.Stale
		}
	}
	maps.DeleteFunc(staying, func(_ netip.Addr, stays bool) bool { return !stays })
	all = setOf(entries)
	return all, without(all, setOf(staying))
}

// atClosed is who has an address that an entry or a reservation keeps from ADDs in a range, but not for long, or not
// from the ADD of another pod. by is who has it.
func (x *asked) atClosed(addr netip.Addr, r *Range, by []string) (has []string, why string) {
	reservation := r.protected[addr]
	switch {
	case reservation != nil && !r.recorded.Contains(addr):
		if others := x.besideOwner(addr, reservation); len(others) > 0 {
			return others, fmt.Sprintf("its reservation is that of %s, whose ADDs assign it", reservation.PodRef)
		}
	case reservation == nil && r.leaving.Contains(addr):
		return by, "the allocation in the pool is stale, and ADDs assign it once that is released"
	}
	return nil, ""
}

// besideOwner is who has an address that only ADDs of its reservation's owner assign. It is nobody if the owner has it
// already, also as a phantom, if no pod can have the podref, and if an IPAMClaim keeps the address. The owner's guest
// counts as the owner.
func (x *asked) besideOwner(addr netip.Addr, r *ippool.Reservation) (others []string) {
	if r.Owner.Name == "" || r.Claim != nil {
		return nil
	}
	owner, hasIt := r.Owner.Namespace+"/"+r.Owner.Name, false
	note := func(pod, text string) {
		hasIt = hasIt || pod == owner
		others = append(others, text)
	}
	for _, it := range x.entries[addr] {
		note(it.PodRef(), it.PodRef())
	}
	for _, b := range x.sandboxes[addr] {
		note(b.Pod(), b.Pod())
	}
	for _, c := range x.carriers[addr] {
		switch {
		case c.Kind == usage.PodCarrier:
			note(c.Name, c.String())
		case c.Kind != usage.GuestCarrier || !x.isGuestOf(c.Name, r.Owner):
			note("", c.String())
		}
	}
	if hasIt {
		return nil
	}
	return facts.SortedUnique(others)
}

// isGuestOf reports whether a guest runs in a pod.
func (x *asked) isGuestOf(guest string, owner ippool.PodRef) bool {
	pod := x.f.Pod(owner.Namespace, owner.Name)
	return pod != nil && pod.Machine != nil && slices.ContainsFunc(x.j.Observation.Guests.Or(nil),
		func(g *podstate.Guest) bool { return g.String() == guest && g.UID == pod.Machine.UID })
}

// keepsSlices reports whether a network is cut into the same slices as today. Another one is cut anew, and which node
// gets which slice, and so reads which pool, is unknown.
func (x *asked) keepsSlices(n ippool.Network) bool {
	return slices.ContainsFunc(x.p.Definitions, func(name string) bool {
		nad := x.f.NAD(name)
		return nad != nil && slices.ContainsFunc(nad.Networks, func(today ippool.Network) bool {
			return today.Slices && today.Name == n.Name && today.SliceBits == n.SliceBits && today.Ranges[0] == n.Ranges[0]
		})
	})
}

// isBeingAdded reports whether only Pending pods have an address, by allocations. While an ADD is in progress, its pod
// is Pending, and the allocation has no reservation for a moment (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go,
// IPManagementKubernetesUpdate).
func (x *asked) isBeingAdded(addr netip.Addr) bool {
	isOther := func(it *judge.Item) bool { return it.Reason != judge.PodPending }
	return len(x.entries[addr]) > 0 && len(x.carriers[addr])+len(x.sandboxes[addr])+len(x.alone[addr]) == 0 &&
		!slices.ContainsFunc(x.entries[addr], isOther)
}

// at is who has an address that ADDs in a range would assign, and why they would.
func (x *asked) at(addr netip.Addr, r *Range) (by []string, why string, isLacking bool) {
	var pools []string
	for _, it := range x.entries[addr] {
		by, pools = append(by, it.PodRef()), append(pools, it.Object())
	}
	for _, b := range x.sandboxes[addr] {
		by = append(by, b.Pod())
	}
	isOfWhereabouts, isGateway := len(x.sandboxes[addr]) > 0, false
	for _, c := range x.carriers[addr] {
		by = append(by, c.String())
		if c.Kind == usage.GatewayCarrier {
			isGateway = true
		} else {
			isOfWhereabouts = isOfWhereabouts || c.IsReported || c.Definition != nil
		}
	}
	isReserved := false
	for _, it := range x.alone[addr] {
		if x.networks[it.Network()] {
			by, isReserved = append(by, it.PodRef()), true
		}
	}
	by, where := facts.SortedUnique(by), strings.Join(facts.SortedUnique(pools), ", ")
	switch {
	case len(pools) > 0 && !r.Network.Overlapping:
		why = fmt.Sprintf("recorded in %s; without enable_overlapping_ranges ADDs do not look there", where)
	case len(pools) > 0:
		why, isLacking = fmt.Sprintf("recorded in %s; no reservation keeps it from ADDs in another pool", where), true
	case isReserved:
		why = "only reserved; without enable_overlapping_ranges ADDs do not look at reservations"
	case isOfWhereabouts:
		why, isLacking = "no pool records it", true
	case isGateway:
		why = "whereabouts assigns a gateway as any other address"
	default:
		why = "whereabouts has not assigned it, and knows nothing of it"
	}
	return by, why, isLacking
}

// unrecordedOutside returns the findings on addresses that are carried and not recorded in a pool, and that a proposal
// does not assign. A finding that the judgement counts and does not list has its address alone.
func unrecordedOutside(j *findings.Assessment, pool string, assigns func(netip.Addr) bool) []findings.Finding {
	carriers := map[string][]findings.Finding{} // by address
	for _, f := range j.Findings {
		if f.Kind == findings.Unrecorded && f.Pool == pool && !f.IsRest() {
			carriers[f.IP] = append(carriers[f.IP], f)
		}
	}
	found := []findings.Finding{}
	for _, a := range facts.UniqueAddresses(slices.Clone(j.Unrecorded()[pool])) {
		listed := carriers[a.String()]
		if len(listed) == 0 {
			listed = []findings.Finding{{Kind: findings.Unrecorded, IP: a.String(), Pool: pool,
				Message: fmt.Sprintf("%s is carried, but pool %s has no allocation for it", a, pool)}}
		}
		if !assigns(a) {
			found = append(found, listed...)
		}
	}
	return found
}
