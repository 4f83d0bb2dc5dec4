package ranges

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// holders are who has addresses of some kind, on any network. What is stale has them, too.
type holders struct {
	f         *facts.Facts
	j         *findings.Assessment
	entries   map[netip.Addr][]*judge.Item // allocations
	alone     map[netip.Addr][]*judge.Item // reservations without an allocation
	carriers  map[netip.Addr][]usage.Carrier
	sandboxes map[netip.Addr][]facts.SandboxAddress // those that may run, or whose network may be open
}

// holdersOf are who has the addresses that a function admits. It admits no invalid one.
func holdersOf(j *findings.Assessment, admits func(netip.Addr) bool) *holders {
	x := &holders{f: j.Facts(), j: j, entries: map[netip.Addr][]*judge.Item{}, alone: map[netip.Addr][]*judge.Item{},
		sandboxes: map[netip.Addr][]facts.SandboxAddress{}}
	// Reports list the addresses of whereabouts only, and a pod's definition may have had another IPAM when it started. So
	// a pod has what its network-status says until all of its networks are closed.
	x.carriers = usage.CarriersOf(j.Observation, admits, x.f.HasStopped)
	for _, it := range j.Allocations {
		if addr := it.Address(); admits(addr) {
			x.entries[addr] = append(x.entries[addr], it)
		}
	}
	for _, it := range j.Reservations {
		if addr := it.Address(); len(it.Related()) == 0 && admits(addr) {
			x.alone[addr] = append(x.alone[addr], it)
		}
	}
	for addr := range x.f.CarriedAddresses() {
		if !admits(addr) {
			continue
		}
		for _, b := range x.f.SandboxesAt(addr) {
			if x.f.MayHoldAddress(&b.Mention) {
				x.sandboxes[addr] = append(x.sandboxes[addr], b)
			}
		}
	}
	return x
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
