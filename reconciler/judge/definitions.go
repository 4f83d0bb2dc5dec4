package judge

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// definedRange is a range of a network in a readable NetworkAttachmentDefinition.
type definedRange struct {
	network string
	prefix  netip.Prefix
}

// definition is the part of a NetworkAttachmentDefinition about one of its ranges.
type definition struct {
	network             string
	overlapping, slices bool
	sliceBits           int
}

// definedFor calls f for each range of a definition that contains the pool's range. The cost does not grow with the
// number of definitions, which tenants write.
func (x *Index) definedFor(p *ippool.Pool, f func(ippool.Network)) {
	if p.Problem != "" {
		return
	}
	for own, bits := p.Range.Prefix(), p.Range.Prefix().Bits(); bits >= 0; bits-- {
		around, _ := own.Addr().Prefix(bits)
		for d := range x.definitions[around] {
			f(ippool.Network{Name: d.network, Ranges: []netip.Prefix{around},
				Overlapping: d.overlapping, Slices: d.slices, SliceBits: d.sliceBits})
		}
	}
}

func (x *Index) addDefinitions() {
	x.nads, x.definitions = map[string]*ippool.NAD{}, map[netip.Prefix]map[definition]bool{}
	x.overlaps = map[definedRange]bool{}
	sliced := map[definedRange]bool{}
	for name, nad := range x.o.NADs.Or(nil) {
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

// addMissingPools finds the ranges of definitions without a pool. A restore of etcd or a user has deleted the pool, and
// the next ADD creates an empty one. The namespace of the pool is known only if all pools and reservations are in one.
func (x *Index) addMissingPools() {
	x.missingPools = map[definedRange]*pool{}
	namespaces := map[string]bool{}
	for _, p := range x.o.Pools {
		namespaces[p.Namespace] = true
	}
	for _, r := range x.o.Reservations.Or(nil) {
		namespaces[r.Namespace] = true
	}
	if len(namespaces) != 1 {
		return
	}
	namespace := slices.Collect(maps.Keys(namespaces))[0]
	for at := range x.overlaps {
		p := ippool.NewPool(namespace, at.network, at.prefix)
		if x.poolNamed(p.Ref()) == nil { // otherwise it exists and cannot be read
			x.missingPools[at] = x.newPool(p, []string{at.network})
			x.missingPools[at].isMissing = true
		}
	}
}

// missingPool is the pool that should record a sandbox's address, by the CNI result cache and a definition, and does
// not exist. It is nil if another pool may be the one. No pool records the address for the sandbox's interface.
func (x *Index) missingPool(b *sandboxAddress, addr netip.Addr) *pool {
	r, err := ippool.ParseConfiguredRange(b.Range)
	p := x.missingPools[definedRange{b.NetworkName, r}]
	if err != nil || p == nil || !r.Contains(addr) || slices.ContainsFunc(x.poolsAt(addr), func(q *pool) bool {
		return q.networks == nil || q.isOfNetwork(b.NetworkName) && x.isOfRange(q, b.Range)
	}) {
		return nil
	}
	return p
}

// isIsolated reports whether every definition of a pool's range has enable_overlapping_ranges off. whereabouts then
// assigns an address from several such pools (v0.9.4, pkg/storage/kubernetes/ipam.go): the networks are isolated, and a
// carrier on one of them is no claimant on another.
func (x *Index) isIsolated(p *pool) bool {
	if p == nil || len(p.networks) != 1 {
		return false
	}
	overlaps, defined := x.overlaps[definedRange{p.networks[0], p.Range.Prefix()}]
	return defined && !overlaps
}

func (x *Index) isolatedPools(addr netip.Addr, matches func(entry) bool) (found []*pool) {
	for _, e := range x.entriesFor(addr) {
		if x.isIsolated(e.pool) && matches(e) {
			found = append(found, e.pool)
		}
	}
	return found
}

// isolatedOfPod are the isolated pools that a pod has an address from, by its definition.
func (x *Index) isolatedOfPod(addr netip.Addr, c podAddress) []*pool {
	return x.isolatedPools(addr, func(e entry) bool {
		return c.nad != nil && e.PodRef == c.pod.String() && e.pool.isMapped(c.nad)
	})
}

// isolatedOfSandbox are the isolated pools that a sandbox has an address from, by network and range in its CNI cache.
func (x *Index) isolatedOfSandbox(addr netip.Addr, b *sandboxAddress) []*pool {
	return x.isolatedPools(addr, func(e entry) bool {
		return e.ContainerID == b.ID && e.pool.isOfNetwork(b.NetworkName) && x.isOfRange(e.pool, b.Range)
	})
}

// isApart reports whether a carrier with the address from these isolated pools cannot have it from the item's pool.
func (x *Index) isApart(it *Item, from []*pool) bool {
	return len(from) > 0 && x.isIsolated(it.pool) && !slices.Contains(from, it.pool)
}
