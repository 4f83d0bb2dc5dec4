package judge

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
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

// definedFor calls f for each range of a definition that contains the pool's range, of the networks that begin the
// pool's name. Of a pool whose name is not one of whereabouts', f is called for all networks. The cost does not grow
// with the number of definitions, which tenants write.
func (x *Index) definedFor(p *ippool.Pool, f func(ippool.Network)) {
	if p.Problem != "" {
		return
	}
	call := func(d definition, around netip.Prefix) {
		f(ippool.Network{Name: d.network, Ranges: []netip.Prefix{around},
			Overlapping: d.overlapping, Slices: d.slices, SliceBits: d.sliceBits})
	}
	isOfAny := p.Networks(nil) == nil
	for _, bits := range x.definedLengths {
		own := p.Range.Prefix()
		around, err := own.Addr().Prefix(bits)
		switch {
		case err != nil || bits > own.Bits() || x.definitions[around] == nil:
			continue
		case isOfAny:
			for d := range x.definitions[around] {
				call(d, around)
			}
			continue
		}
		for i := 0; i < len(p.Name); i++ {
			if i > 0 && p.Name[i] != '-' {
				continue
			}
			for _, d := range x.defined[definedRange{p.Name[:i], around}] {
				call(d, around)
			}
		}
	}
}

func (x *Index) addDefinitions() {
	x.nads, x.definitions = map[string]*ippool.NAD{}, map[netip.Prefix]map[definition]bool{}
	x.defined, x.definedLengths = map[definedRange][]definition{}, nil
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
					x.definedLengths = append(x.definedLengths, r.Bits())
				}
				d, at := definition{n.Name, n.Overlapping, n.Slices, n.SliceBits}, definedRange{n.Name, r}
				if !x.definitions[r][d] {
					x.definitions[r][d], x.defined[at] = true, append(x.defined[at], d)
				}
			}
		}
	}
	x.definedLengths = sortedUnique(x.definedLengths)
}

// isDefined reports whether a range of any definition contains an address.
func (x *Index) isDefined(addr netip.Addr) bool {
	return slices.ContainsFunc(x.definedLengths, func(bits int) bool {
		around, err := addr.Prefix(bits)
		return err == nil && x.definitions[around] != nil
	})
}

// definedAt are the ranges of a network's definitions that contain an address. The cost grows with the number of prefix
// lengths, not of definitions, which tenants write.
func (x *Index) definedAt(network string, addr netip.Addr) (found []definedRange) {
	for _, bits := range x.definedLengths {
		around, err := addr.Prefix(bits)
		if at := (definedRange{network, around}); err == nil && x.defined[at] != nil {
			found = append(found, at)
		}
	}
	return found
}

// reservesOverlaps reports whether every ADD in a range skips the addresses that have a reservation of its network.
func (x *Index) reservesOverlaps(at definedRange) bool {
	return !slices.ContainsFunc(x.defined[at], func(d definition) bool { return !d.overlapping })
}

// usesOverlaps reports whether any ADD in a range skips them.
func (x *Index) usesOverlaps(at definedRange) bool {
	return slices.ContainsFunc(x.defined[at], func(d definition) bool { return d.overlapping })
}

// isSliced reports whether a definition cuts a range into node slices.
func (x *Index) isSliced(at definedRange) bool {
	return slices.ContainsFunc(x.defined[at], func(d definition) bool { return d.slices })
}

// isReadBy reports whether ADDs in a range, by the definitions of today, look for addresses in a pool.
func (x *Index) isReadBy(p *pool, at definedRange) bool {
	return p.records(at.network) && slices.ContainsFunc(x.defined[at], func(d definition) bool {
		n := ippool.Network{Name: d.network, Ranges: []netip.Prefix{at.prefix}, Slices: d.slices}
		if !d.slices {
			return n.Maps(p.Pool, p.networks)
		}
		_, ok := n.SliceOf(p.Pool)
		return ok && (d.sliceBits == 0 || d.sliceBits == p.Range.Prefix().Bits())
	})
}

// addPoolNames finds the names of all pools, and their namespace. A restore of etcd or a user may have deleted a pool,
// and the next ADD creates an empty one. Its namespace is known only if all pools and reservations are in one.
func (x *Index) addPoolNames() {
	x.poolNames, x.missingPools, x.namespace = map[string]bool{}, map[definedRange]*pool{}, ""
	namespaces := map[string]bool{}
	for _, p := range x.o.Pools {
		namespaces[p.Namespace], x.poolNames[p.Name] = true, true
	}
	for _, r := range x.o.Reservations.Or(nil) {
		namespaces[r.Namespace] = true
	}
	if len(namespaces) == 1 {
		x.namespace = slices.Collect(maps.Keys(namespaces))[0]
	}
}

// isMissingAt reports whether a range that no definition cuts into node slices has no pool. A pool that exists and
// cannot be read is not missing.
func (x *Index) isMissingAt(at definedRange) bool {
	return x.defined[at] != nil && !x.isSliced(at) && !x.poolNames[ippool.PoolName(at.network, at.prefix)]
}

// missingPool is the pool that the next ADD in a range creates, the same one for each call. It is nil if the pool is
// not missing, or its namespace is unknown.
func (x *Index) missingPool(at definedRange) *pool {
	if x.namespace == "" || !x.isMissingAt(at) {
		return nil
	}
	if x.missingPools[at] == nil {
		x.missingPools[at] = x.newPool(ippool.NewPool(x.namespace, at.network, at.prefix), []string{at.network})
		x.missingPools[at].isMissing = true
	}
	return x.missingPools[at]
}

// isIsolated reports whether every definition of a pool's range has enable_overlapping_ranges off. whereabouts then
// assigns an address from several such pools (v0.9.4, pkg/storage/kubernetes/ipam.go): the networks are isolated, and a
// carrier on one of them is no claimant on another.
func (x *Index) isIsolated(p *pool) bool {
	if p == nil || len(p.networks) != 1 {
		return false
	}
	at := definedRange{p.networks[0], p.Range.Prefix()}
	return x.defined[at] != nil && !slices.ContainsFunc(x.defined[at], func(d definition) bool {
		return d.overlapping || d.slices
	})
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

// poolOrMissing is the pool of this name, or the missing one that an ADD would create; nil for none.
func (x *Index) poolOrMissing(ref string) *pool {
	if p := x.poolNamed(ref); p != nil {
		return p
	}
	for _, p := range x.missingPools {
		if p.ref == ref {
			return p
		}
	}
	return nil
}

// requestedInterfaces is the number of interfaces with which a pod requests a network of a pool.
func (x *Index) requestedInterfaces(pod *podstate.Pod, p *pool) (n int) {
	count := func(name string) {
		if nad := x.nads[name]; nad != nil && p.isMapped(nad) {
			n++
		}
	}
	for i := range pod.Interfaces {
		count(pod.Interfaces[i].Network)
	}
	n = min(n, pod.RequestedCount)
	for _, name := range pod.RequestedNetworks { // empty if the status is readable
		count(name.String())
	}
	return n
}
