package judge

import (
	"net/netip"
	"slices"
)

// Where every definition of two ranges has enable_overlapping_ranges off, whereabouts gives an
// address of both twice, on purpose: the networks are isolated from each other. Who has the address
// from the one is no claimant of the other's (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go).

// isUnchecked reports whether a pool is of such a range.
func (x *Index) isUnchecked(p *pool) bool {
	if p == nil || len(p.networks) != 1 {
		return false
	}
	overlapping, defined := x.defined[definedRange{p.networks[0], p.Range.Prefix()}]
	return defined && !overlapping
}

// uncheckedPools are the pools of such ranges that record an address for whom is says.
func (x *Index) uncheckedPools(addr netip.Addr, is func(entry) bool) (found []*pool) {
	for _, e := range x.entriesFor(nil, addr) {
		if x.isUnchecked(e.pool) && is(e) {
			found = append(found, e.pool)
		}
	}
	return found
}

// uncheckedOfPod are those of the pool that a pod has an address from, by its definition.
func (x *Index) uncheckedOfPod(addr netip.Addr, c podAddress) []*pool {
	return x.uncheckedPools(addr, func(e entry) bool { return c.nad != nil && e.PodRef == c.pod.String() && e.pool.mapped(c.nad) })
}

// uncheckedOfSandbox are those of the pool that a sandbox has an address from, by the cached range.
func (x *Index) uncheckedOfSandbox(addr netip.Addr, b *sandboxAddress) []*pool {
	return x.uncheckedPools(addr, func(e entry) bool { return e.ContainerID == b.containerID() && x.isRangeOf(e.pool, b.Range) })
}

// isApart reports whether a carrier that has the address from these pools cannot have it from the
// candidate's.
func (x *Index) isApart(s *candidate, from []*pool) bool {
	return len(from) > 0 && x.isUnchecked(s.pool) && !slices.Contains(from, s.pool)
}

// carriedOn is a network on which an address is carried: of isolated ones of that name the one with this pool.
type carriedOn struct{ network, pool string }

func on(network string, from []*pool) carriedOn {
	if len(from) != 1 {
		return carriedOn{network: network}
	}
	return carriedOn{network, from[0].ref}
}

// together puts all carriers on a network together where it is not known of all on which isolated one they are.
func together[T any](carriers map[carriedOn][]T) {
	for at, some := range carriers {
		unknown := carriedOn{network: at.network}
		if all, there := carriers[unknown]; there && at != unknown {
			carriers[unknown] = append(all, some...)
			delete(carriers, at)
		}
	}
}
