package judge

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// definedRange is a range of a network that a readable NetworkAttachmentDefinition names,
// and none cuts into slices.
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

// definedFor calls f for what definitions say of the ranges that a pool may be of, one range at
// a time. What definitions cost does not grow with the pools: a tenant writes as many as fit.
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
	x.nads, x.definitions = readableNADs(x.o), map[netip.Prefix]map[definition]bool{}
	for _, nad := range x.o.NADs {
		for _, n := range nad.Networks {
			for _, r := range n.Ranges {
				if x.definitions[r] == nil {
					x.definitions[r] = map[definition]bool{}
				}
				x.definitions[r][definition{n.Name, n.Overlapping, n.Slices, n.SliceBits}] = true
			}
		}
	}
	x.defined = map[definedRange]bool{}
	sliced := map[definedRange]bool{}
	for _, nad := range x.nads {
		for _, n := range nad.Networks {
			for _, r := range n.Ranges {
				at := definedRange{n.Name, r}
				x.defined[at] = x.defined[at] || n.Overlapping
				sliced[at] = sliced[at] || n.Slices
			}
		}
	}
	maps.DeleteFunc(x.defined, func(at definedRange, _ bool) bool { return sliced[at] })
	x.poolNamespace = onlyNamespace(x.o)
}

// onlyNamespace is the one namespace in which there are pools and reservations, "" where there
// are none or several: whereabouts' pools are where the nodes' kubeconfig says.
func onlyNamespace(o *Observation) string {
	only := ""
	for _, p := range o.Pools {
		if only != "" && p.Namespace != only {
			return ""
		}
		only = p.Namespace
	}
	for _, r := range o.Reservations {
		if only != "" && r.Namespace != only {
			return ""
		}
		only = r.Namespace
	}
	return only
}

// missingPool is the pool that a sandbox has its address of, by the CNI result cache and a
// definition, where there is no such pool: etcd was restored from a backup of before its
// first ADD, or somebody has deleted it. The next ADD makes it, empty. It is nil where a pool
// may be that one, or records the address for this sandbox (a network_name may be configured
// on the nodes), and where it is not known which pool there should be.
func (x *Index) missingPool(id string, a *v1alpha1.Address, addr netip.Addr) *pool {
	if x.poolNamespace == "" || slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool {
		return p.networks == nil || p.isOfNetwork(a.NetworkName) && x.isRangeOf(p, a.Range) ||
			slices.ContainsFunc(p.entriesFor(nil, addr), func(e entry) bool { return e.ContainerID == id })
	}) {
		return nil
	}
	r, err := ippool.ParseConfiguredRange(a.Range)
	if _, defined := x.defined[definedRange{a.NetworkName, r}]; err != nil || !defined || !r.Contains(addr) {
		return nil
	}
	p := ippool.NewPool(x.poolNamespace, a.NetworkName, r)
	if x.poolNamed(p.Ref()) != nil { // it cannot be read
		return nil
	}
	if x.missingPools[p.Ref()] == nil {
		q := x.newPool(p, []string{a.NetworkName})
		q.missing, x.missingPools[p.Ref()] = true, q
	}
	return x.missingPools[p.Ref()]
}

// overlaps reports whether the network of a missing pool uses overlapping ranges.
func (x *Index) overlaps(missing *pool) bool {
	return x.defined[definedRange{missing.networks[0], missing.Range.Prefix()}]
}
