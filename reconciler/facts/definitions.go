package facts

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// DefinedRange is a range of a network in a readable NetworkAttachmentDefinition.
type DefinedRange struct {
	Network string
	Prefix  netip.Prefix
}

// definition is the part of a NetworkAttachmentDefinition about one of its ranges.
type definition struct {
	network             string
	overlapping, slices bool
	sliceBits           int
}

// DefinedFor calls a function for each range of a definition that contains the pool's range, of the networks that begin
// the pool's name. Of a pool whose name is not one of whereabouts', it is called for all networks. The cost does not
// grow with the number of definitions, which tenants write.
func (f *Facts) DefinedFor(p *ippool.Pool, call func(ippool.Network)) {
	if p.Problem != "" {
		return
	}
	callFor := func(d definition, around netip.Prefix) {
		call(ippool.Network{Name: d.network, Ranges: []netip.Prefix{around},
			Overlapping: d.overlapping, Slices: d.slices, SliceBits: d.sliceBits})
	}
	isOfAny := p.Networks(nil) == nil
	for _, bits := range f.definedLengths {
		own := p.Range.Prefix()
		around, err := own.Addr().Prefix(bits)
		switch {
		case err != nil || bits > own.Bits() || f.definitions[around] == nil:
			continue
		case isOfAny:
			for d := range f.definitions[around] {
				callFor(d, around)
			}
			continue
		}
		for i := 0; i < len(p.Name); i++ {
			if i > 0 && p.Name[i] != '-' {
				continue
			}
			for _, d := range f.defined[DefinedRange{p.Name[:i], around}] {
				callFor(d, around)
			}
		}
	}
}

func (f *Facts) addDefinitions() {
	f.nads, f.definitions = map[string]*ippool.NAD{}, map[netip.Prefix]map[definition]bool{}
	f.defined, f.definedLengths = map[DefinedRange][]definition{}, nil
	for name, nad := range f.o.NADs.Or(nil) {
		if nad == nil || nad.Problem != "" {
			continue
		}
		if name.Namespace != "" && name.Name != "" {
			f.nads[name.String()] = nad
		}
		for _, n := range nad.Networks {
			for _, r := range n.Ranges {
				if f.definitions[r] == nil {
					f.definitions[r] = map[definition]bool{}
					f.definedLengths = append(f.definedLengths, r.Bits())
				}
				d, at := definition{n.Name, n.Overlapping, n.Slices, n.SliceBits}, DefinedRange{n.Name, r}
				if !f.definitions[r][d] {
					f.definitions[r][d], f.defined[at] = true, append(f.defined[at], d)
				}
			}
		}
	}
	f.definedLengths = SortedUnique(f.definedLengths)
}

// IsDefined reports whether a range of any definition contains an address.
func (f *Facts) IsDefined(addr netip.Addr) bool {
	return slices.ContainsFunc(f.definedLengths, func(bits int) bool {
		around, err := addr.Prefix(bits)
		return err == nil && f.definitions[around] != nil
	})
}

// DefinedAt are the ranges of a network's definitions that contain an address. The cost grows with the number of prefix
// lengths, not of definitions, which tenants write.
func (f *Facts) DefinedAt(network string, addr netip.Addr) (found []DefinedRange) {
	for _, bits := range f.definedLengths {
		around, err := addr.Prefix(bits)
		if at := (DefinedRange{network, around}); err == nil && f.defined[at] != nil {
			found = append(found, at)
		}
	}
	return found
}

// ReservesOverlaps reports whether every ADD in a range skips the addresses that have a reservation of its network.
func (f *Facts) ReservesOverlaps(at DefinedRange) bool {
	return !slices.ContainsFunc(f.defined[at], func(d definition) bool { return !d.overlapping })
}

// IsSliced reports whether a definition cuts a range into node slices.
func (f *Facts) IsSliced(at DefinedRange) bool {
	return slices.ContainsFunc(f.defined[at], func(d definition) bool { return d.slices })
}

// IsReadBy reports whether ADDs in a range, by the definitions of today, look for addresses in a pool.
func (f *Facts) IsReadBy(p *Pool, at DefinedRange) bool {
	return p.Records(at.Network) && slices.ContainsFunc(f.defined[at], func(d definition) bool {
		n := ippool.Network{Name: d.network, Ranges: []netip.Prefix{at.Prefix}, Slices: d.slices}
		if !d.slices {
			return n.Maps(p.Pool, p.Admitted)
		}
		_, ok := n.SliceOf(p.Pool)
		return ok && (d.sliceBits == 0 || d.sliceBits == p.Range.Prefix().Bits())
	})
}

// addPoolNames finds the names of all pools, and their namespace. A restore of etcd or a user may have deleted a pool,
// and the next ADD creates an empty one. Its namespace is known only if all pools and reservations are in one.
func (f *Facts) addPoolNames() {
	f.poolNames, f.missingPools, f.namespace = map[string]bool{}, map[DefinedRange]*Pool{}, ""
	namespaces := map[string]bool{}
	for _, p := range f.o.Pools {
		namespaces[p.Namespace], f.poolNames[p.Name] = true, true
	}
	for _, r := range f.o.Reservations.Or(nil) {
		namespaces[r.Namespace] = true
	}
	if len(namespaces) == 1 {
		f.namespace = slices.Collect(maps.Keys(namespaces))[0]
	}
}

// IsMissingAt reports whether a range that no definition cuts into node slices has no pool, and can have one. A pool
// that exists and cannot be read is not missing.
func (f *Facts) IsMissingAt(at DefinedRange) bool {
	if f.defined[at] == nil || f.IsSliced(at) {
		return false
	}
	name := ippool.PoolName(at.Network, at.Prefix)
	return !f.poolNames[name] && ippool.IsObjectName(name)
}

// MissingPool is the pool that the next ADD in a range creates, the same one for each call. It is nil if the pool is
// not missing, or its namespace is unknown.
func (f *Facts) MissingPool(at DefinedRange) *Pool {
	if f.namespace == "" || !f.IsMissingAt(at) {
		return nil
	}
	if f.missingPools[at] == nil {
		f.missingPools[at] = f.newPool(ippool.NewPool(f.namespace, at.Network, at.Prefix), []string{at.Network})
		f.missingPools[at].IsMissing = true
	}
	return f.missingPools[at]
}

// IsIsolated reports whether every definition of a pool's range has enable_overlapping_ranges off. whereabouts then
// assigns an address from several such pools (v0.9.4, pkg/storage/kubernetes/ipam.go): the networks are isolated, and a
// carrier on one of them is no claimant on another.
func (f *Facts) IsIsolated(p *Pool) bool {
	if p == nil || len(p.Admitted) != 1 {
		return false
	}
	at := DefinedRange{p.Admitted[0], p.Range.Prefix()}
	return f.defined[at] != nil && !slices.ContainsFunc(f.defined[at], func(d definition) bool {
		return d.overlapping || d.slices
	})
}

func (f *Facts) isolatedPools(addr netip.Addr, matches func(Entry) bool) (found []*Pool) {
	for _, e := range f.EntriesFor(addr) {
		if f.IsIsolated(e.Pool) && matches(e) {
			found = append(found, e.Pool)
		}
	}
	return found
}

// IsolatedOfPod are the isolated pools that a pod has an address from, by its definition.
func (f *Facts) IsolatedOfPod(addr netip.Addr, c PodAddress) []*Pool {
	return f.isolatedPools(addr, func(e Entry) bool {
		return c.NAD != nil && e.PodRef == c.Pod.String() && e.Pool.IsMapped(c.NAD)
	})
}

// IsolatedOfSandbox are the isolated pools that a sandbox has an address from, by network and range in its CNI cache.
func (f *Facts) IsolatedOfSandbox(addr netip.Addr, b *SandboxAddress) []*Pool {
	return f.isolatedPools(addr, func(e Entry) bool {
		return e.ContainerID == b.ID && e.Pool.IsOfNetwork(b.NetworkName) && f.IsOfRange(e.Pool, b.Range)
	})
}

// PoolOrMissing is the pool of this name, or the missing one that an ADD would create; nil for none.
func (f *Facts) PoolOrMissing(ref string) *Pool {
	if p := f.PoolNamed(ref); p != nil {
		return p
	}
	for _, p := range f.missingPools {
		if p.ref == ref {
			return p
		}
	}
	return nil
}

// RequestedInterfaces is the number of interfaces with which a pod requests a network of a pool.
func (f *Facts) RequestedInterfaces(pod *podstate.Pod, p *Pool) (n int) {
	count := func(name string) {
		if nad := f.nads[name]; nad != nil && p.IsMapped(nad) {
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
