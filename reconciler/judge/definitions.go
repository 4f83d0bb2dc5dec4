package judge

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// definedRange is a range of a network that a readable NetworkAttachmentDefinition names.
type definedRange struct {
	network string
	prefix  netip.Prefix
}

// definition is what a definition says of one of its ranges.
type definition struct {
	network             string
	overlapping, slices bool
	sliceBits           int
}

// definedFor calls f for what definitions say of the ranges that a pool may be of, one range at a time. The cost does not
// grow with the pools: a tenant writes as many definitions as fit.
func (x *Index) definedFor(p *ippool.Pool, f func(ippool.Network)) {
	if p.Problem != "" {
		return
	}
	for own, bits := p.Range.Prefix(), p.Range.Prefix().Bits(); bits >= 0; bits-- {
		around, _ := own.Addr().Prefix(bits)
		for d := range x.definitions[around] {
			f(ippool.Network{Name: d.network, Ranges: []netip.Prefix{around}, Overlapping: d.overlapping, Slices: d.slices, SliceBits: d.sliceBits})
		}
	}
}

// addDefinitions indexes what the readable definitions say of pools.
func (x *Index) addDefinitions() {
	x.nads, x.definitions, x.overlaps = map[string]*ippool.NAD{}, map[netip.Prefix]map[definition]bool{}, map[definedRange]bool{}
	sliced := map[definedRange]bool{}
	for name, nad := range x.o.NADs {
		if nad == nil || nad.Problem != "" {
			continue
		}
		if name.Namespace != "" && name.Name != "" {
			x.nads[name.String()] = nad
		}
		for _, n := range nad.Networks {
			for _, r := range n.Ranges {
				if x.definitions[r] == nil {
					x.definitions[r] = map[definition]bool{}
				}
				x.definitions[r][definition{n.Name, n.Overlapping, n.Slices, n.SliceBits}] = true
				at := definedRange{n.Name, r}
				x.overlaps[at], sliced[at] = x.overlaps[at] || n.Overlapping, sliced[at] || n.Slices
			}
		}
	}
	maps.DeleteFunc(x.overlaps, func(at definedRange, _ bool) bool { return sliced[at] })
}

// addMissingPools finds the ranges of definitions that have no pool. Where etcd was restored from a backup of before its
// first ADD, or somebody has deleted the pool, the next ADD makes an empty one. It is not known in which namespace where
// there are pools and reservations in several: whereabouts' pools are where the nodes' kubeconfig says.
func (x *Index) addMissingPools() {
	x.missingPools = map[definedRange]*pool{}
	namespaces := map[string]bool{}
	for _, p := range x.o.Pools {
		namespaces[p.Namespace] = true
	}
	for _, r := range x.o.Reservations {
		namespaces[r.Namespace] = true
	}
	if len(namespaces) != 1 {
		return
	}
	namespace := slices.Collect(maps.Keys(namespaces))[0]
	for at := range x.overlaps {
		p := ippool.NewPool(namespace, at.network, at.prefix)
		if x.poolNamed(p.Ref()) == nil { // else it cannot be read
			x.missingPools[at] = x.newPool(p, []string{at.network})
			x.missingPools[at].missing = true
		}
	}
}

// missingPool is the pool that a sandbox has its address of, by the CNI result cache and a definition, where there is no
// such pool. It is nil where a pool may be that one, or records the address for this sandbox: a network_name may be
// configured on the nodes.
func (x *Index) missingPool(b *sandboxAddress, addr netip.Addr) *pool {
	r, err := ippool.ParseConfiguredRange(b.Range)
	p := x.missingPools[definedRange{b.NetworkName, r}]
	if err != nil || p == nil || !r.Contains(addr) || slices.ContainsFunc(x.poolsAt(addr), func(q *pool) bool {
		return q.networks == nil || q.isOfNetwork(b.NetworkName) && x.isOfRange(q, b.Range) ||
			slices.ContainsFunc(q.entriesFor(addr), func(e entry) bool { return e.ContainerID == b.ID })
	}) {
		return nil
	}
	return p
}

// Where every definition of two ranges has enable_overlapping_ranges off, whereabouts gives an address of both twice, on
// purpose: the networks are isolated from each other. Who has the address from the one is no claimant of the other's
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go).

// isIsolated reports whether a pool is of such a range.
func (x *Index) isIsolated(p *pool) bool {
	if p == nil || len(p.networks) != 1 {
		return false
	}
	overlaps, defined := x.overlaps[definedRange{p.networks[0], p.Range.Prefix()}]
	return defined && !overlaps
}

// isolatedPools are the pools of such ranges that record an address for whom is says.
func (x *Index) isolatedPools(addr netip.Addr, is func(entry) bool) (found []*pool) {
	for _, e := range x.entriesFor(addr) {
		if x.isIsolated(e.pool) && is(e) {
			found = append(found, e.pool)
		}
	}
	return found
}

// isolatedOfPod are those of the pool that a pod has an address from, by its definition.
func (x *Index) isolatedOfPod(addr netip.Addr, c podAddress) []*pool {
	return x.isolatedPools(addr, func(e entry) bool { return c.nad != nil && e.PodRef == c.pod.String() && e.pool.isMapped(c.nad) })
}

// isolatedOfSandbox are those of the pool that a sandbox has an address from, by the cached range.
func (x *Index) isolatedOfSandbox(addr netip.Addr, b *sandboxAddress) []*pool {
	return x.isolatedPools(addr, func(e entry) bool { return e.ContainerID == b.ID && x.isOfRange(e.pool, b.Range) })
}

// isApart reports whether a carrier that has the address from these pools cannot have it from the item's.
func (x *Index) isApart(it *Item, from []*pool) bool {
	return len(from) > 0 && x.isIsolated(it.in) && !slices.Contains(from, it.in)
}
