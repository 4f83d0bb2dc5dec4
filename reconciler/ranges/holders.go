package ranges

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// holders are who has the addresses of a proposal, in its network and in that of the pools that it replaces. Without a
// proposal they are who has any address, on any network. Then what is stale has them, too.
type holders struct {
	f         *facts.Facts
	j         *findings.Assessment
	p         *Proposal // nil for none
	isAsked   func(netip.Addr) bool
	namespace string // of the pools of whereabouts
	networks  map[string]bool
	entries   map[netip.Addr][]*judge.Item // allocations in use or held
	stale     map[netip.Addr][]string      // the podrefs and container IDs of stale allocations
	alone     map[netip.Addr][]*judge.Item // reservations in use or held, without an allocation
	carriers  map[netip.Addr][]usage.Carrier
	sandboxes map[netip.Addr][]facts.SandboxAddress // those that may run
}

func newHolders(j *findings.Assessment, p *Proposal) *holders {
	x := &holders{f: j.Facts(), j: j, p: p, isAsked: p.hasInRange, networks: map[string]bool{}}
	x.namespace = x.f.Namespace()
	for _, n := range p.Networks {
		x.networks[n.Name] = true
	}
	for _, pool := range p.Pools {
		x.namespace = pool.Namespace
		if own := x.f.PoolNamed(pool.Ref()); own != nil && own.Network != nil {
			x.networks[*own.Network] = true
		}
	}
	return x.fill()
}

// allHolders are who has any address.
func allHolders(j *findings.Assessment) *holders {
	return (&holders{f: j.Facts(), j: j, isAsked: netip.Addr.IsValid}).fill()
}

// fill finds who has the addresses that are asked about.
func (x *holders) fill() *holders {
	x.entries, x.alone = map[netip.Addr][]*judge.Item{}, map[netip.Addr][]*judge.Item{}
	x.stale, x.sandboxes = map[netip.Addr][]string{}, map[netip.Addr][]facts.SandboxAddress{}
	x.carriers = usage.CarriersOf(x.j.Observation, x.isAsked)
	x.addItems()
	x.addSandboxes()
	return x
}

// hasInRange reports whether an address is in a range of the proposal.
func (p *Proposal) hasInRange(addr netip.Addr) bool {
	return addr.IsValid() && slices.ContainsFunc(p.Networks, func(n ippool.Network) bool {
		return slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
	})
}

// isOf reports whether a network is asked about.
func (x *holders) isOf(network string) bool { return x.p == nil || x.networks[network] }

func (x *holders) addItems() {
	for _, it := range x.j.Allocations {
		addr := it.Address()
		switch isIts := x.isAsked(addr) && x.isOn(it.IndexedPool()); {
		case isIts && it.Verdict == judge.Stale && x.p != nil:
			x.stale[addr] = append(x.stale[addr], it.PodRef(), it.ContainerID())
		case isIts:
			x.entries[addr] = append(x.entries[addr], it)
		}
	}
	for _, it := range x.j.Reservations {
		isHeld := it.Verdict != judge.Stale || x.p == nil
		if addr := it.Address(); isHeld && len(it.Related()) == 0 && x.isAsked(addr) {
			x.alone[addr] = append(x.alone[addr], it)
		}
	}
}

// addSandboxes adds those that may have an address, also after they have stopped. One whose allocation is stale has it
// no more.
func (x *holders) addSandboxes() {
	for addr := range x.f.CarriedAddresses() {
		if !x.isAsked(addr) {
			continue
		}
		for _, b := range x.f.SandboxesAt(addr) {
			isJudged := slices.Contains(x.stale[addr], b.ID)
			if x.isOf(b.NetworkName) && x.f.MayHoldAddress(&b.Mention) && !isJudged {
				x.sandboxes[addr] = append(x.sandboxes[addr], b)
			}
		}
	}
}

// isOn reports whether a pool is, or may be, of a network of the proposal or of the pools that it replaces.
func (x *holders) isOn(p *facts.Pool) bool {
	if x.p == nil {
		return true
	}
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

// mayHave reports whether a carrier has its address, or may have it, on these networks. Another network of whereabouts
// may have the same addresses. What a pod carries by an allocation that is stale, it does not carry any more.
func (x *holders) mayHave(c usage.Carrier, addr netip.Addr) bool {
	if c.Kind == usage.PodCarrier && len(x.networks) == 1 && slices.Contains(x.stale[addr], c.Name) {
		return false
	}
	if c.IsReported {
		return x.isOf(c.ReportedNetwork)
	}
	if c.Definition == nil {
		return true
	}
	isOn := slices.ContainsFunc(c.Definition.Networks, func(n ippool.Network) bool { return x.isOf(n.Name) }) ||
		x.isReplaced(c.Definition)
	if !isOn || c.Kind != usage.PodCarrier {
		return isOn
	}
	namespace, name, _ := strings.Cut(c.Name, "/")
	pod := x.f.Pod(namespace, name)
	return pod == nil || !x.f.Denies(pod, addr)
}

// isReplaced reports whether the proposal replaces a definition.
func (x *holders) isReplaced(nad *ippool.NAD) bool {
	return x.p != nil && slices.Contains(x.p.Definitions, nad.String())
}

// reserved are the addresses that ADDs of a network skip because a reservation keeps them: it is not being deleted, and
// is not stale. What will be released soon protects nothing.
func (x *holders) reserved(n ippool.Network) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	if !n.Overlapping {
		return all
	}
	for _, it := range x.j.Reservations {
		r := it.Reservation
		addr, ok := ippool.ReservedAddress(r.Name, n.Name)
		if ok && r.Namespace == x.namespace && !r.Deleting && it.Verdict != judge.Stale {
			all[addr] = true
		}
	}
	return all
}

// keepsSlices reports whether a network is cut into the same slices as today. Another one is cut anew, and which node
// gets which slice, and so reads which pool, is unknown.
func (x *holders) keepsSlices(n ippool.Network) bool {
	return slices.ContainsFunc(x.p.Definitions, func(name string) bool {
		nad := x.f.NAD(name)
		return nad != nil && slices.ContainsFunc(nad.Networks, func(today ippool.Network) bool {
			return today.Slices && today.Name == n.Name && today.SliceBits == n.SliceBits && today.Ranges[0] == n.Ranges[0]
		})
	})
}

// addresses are those of a kind that somebody may have, in their order.
func (x *holders) addresses(is func(netip.Addr) bool) (found []netip.Addr) {
	add := func(addr netip.Addr) {
		if is(addr) {
			found = append(found, addr)
		}
	}
	for addr := range x.entries {
		add(addr)
	}
	for addr := range x.alone {
		add(addr)
	}
	for addr := range x.carriers {
		add(addr)
	}
	for addr := range x.sandboxes {
		add(addr)
	}
	return facts.UniqueAddresses(found)
}

// isBeingAdded reports whether only Pending pods have an address, by allocations. While an ADD is in progress, its pod
// is Pending, and the allocation has no reservation for a moment (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go,
// IPManagementKubernetesUpdate).
func (x *holders) isBeingAdded(addr netip.Addr) bool {
	isOther := func(it *judge.Item) bool { return it.Reason != judge.PodPending }
	return len(x.entries[addr]) > 0 && len(x.carriers[addr])+len(x.sandboxes[addr])+len(x.alone[addr]) == 0 &&
		!slices.ContainsFunc(x.entries[addr], isOther)
}

// at is who has an address that ADDs in a range would assign, and why they would.
func (x *holders) at(addr netip.Addr, r *Range) (by []string, why string, isLacking bool) {
	var pools []string
	for _, it := range x.entries[addr] {
		by, pools = append(by, it.PodRef()), append(pools, it.Object())
	}
	for _, b := range x.sandboxes[addr] {
		by = append(by, b.Pod())
	}
	isOfWhereabouts := len(x.sandboxes[addr]) > 0
	for _, c := range x.carriers[addr] {
		if x.mayHave(c, addr) {
			by = append(by, c.String())
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
