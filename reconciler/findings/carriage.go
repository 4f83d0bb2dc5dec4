package findings

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// carriage is an address that a sandbox or a pod carries, with the ranges in which ADDs may assign it by the
// definitions of today. The range that a CNI cache names may be of a definition that was edited since.
type carriage struct {
	addr        netip.Addr
	node        string
	containerID string // of a sandbox
	podRef      string // of a pod whose sandbox is unknown, "" for a sandbox
	ifName      string
	own         []facts.DefinedRange // of the definition that the carrier's pod names
	today       []facts.DefinedRange // own, and those of the carrier's network
	// cached is set if no definition says which pools ADDs read: then those of the range in the CNI cache count.
	cached *facts.SandboxAddress
}

// carriageOf is the carriage of a sandbox. Its network is that of its CNI cache. The definition that its pod names
// counts, too, if it is of this network, or if no definition has the network any more: then it was renamed.
func (x *finder) carriageOf(b *facts.SandboxAddress, addr netip.Addr) *carriage {
	c := &carriage{addr: addr, node: b.Report.Name, containerID: b.ID, ifName: b.IfName}
	nad, isUnnamed := x.definitionOf(b, addr), false
	r, err := ippool.ParseConfiguredRange(b.Range)
	if at := (facts.DefinedRange{Network: b.NetworkName, Prefix: r}); err == nil && r.Contains(addr) && x.Defines(at) {
		c.today = []facts.DefinedRange{at}
	} else if isUnnamed = x.isInUnnamed(c, b, nad); !isUnnamed {
		c.today = x.DefinedAt(b.NetworkName, addr)
	}
	isRenamed := len(c.today) == 0 && !isUnnamed
	c.own = slices.DeleteFunc(rangesWith(nad, addr), func(at facts.DefinedRange) bool {
		return at.Network != b.NetworkName && !isRenamed
	})
	for _, at := range c.own {
		if !slices.Contains(c.today, at) {
			c.today = append(slices.Clip(c.today), at)
		}
	}
	if len(c.today) == 0 && nad == nil {
		c.cached = b
	}
	return c
}

// isInUnnamed reports whether nothing says that ranges of other definitions are on the carrier's network: it has no
// name, as many networks, the definition that its pod names has other ranges by now, and the carrier's entry is in a
// pool of the range in the CNI cache.
func (x *finder) isInUnnamed(c *carriage, b *facts.SandboxAddress, nad *ippool.NAD) bool {
	isUnnamed := func(n ippool.Network) bool { return n.Name == "" }
	return b.NetworkName == "" && nad != nil && slices.ContainsFunc(nad.Networks, isUnnamed) &&
		slices.ContainsFunc(x.poolsWithEntry(c), func(p *facts.Pool) bool { return x.IsOfRange(p, b.Range) })
}

// carriageOfPod is the carriage of a pod of which only the network-status names the address.
func (x *finder) carriageOfPod(p facts.PodAddress, addr netip.Addr) *carriage {
	c := &carriage{addr: addr, node: p.Pod.Node, podRef: p.Pod.String(), ifName: p.Interface.Name}
	c.own = rangesWith(p.NAD, addr)
	if c.today = c.own; len(c.today) > 0 {
		return c
	}
	isRecorded := len(x.poolsWithEntry(c)) > 0
	for _, n := range p.NAD.Networks {
		if n.Name != "" || !isRecorded { // as isInUnnamed
			c.today = append(c.today, x.DefinedAt(n.Name, addr)...)
		}
	}
	return c
}

// isIts reports whether an entry is the carrier's.
func (c *carriage) isIts(a *ippool.Allocation) bool {
	isOwner := a.ContainerID == c.containerID
	if c.podRef != "" {
		isOwner = a.PodRef == c.podRef
	}
	return isOwner && (a.IfName == "" || a.IfName == c.ifName)
}

// definitionOf is the readable definition that a sandbox's pod names for an address; nil for none.
func (x *finder) definitionOf(b *facts.SandboxAddress, addr netip.Addr) *ippool.NAD {
	return x.definitionOfPod(x.PodOf(&b.Mention), b.IfName, addr)
}

// definitionOfPod is the readable definition that a pod names for an address of an interface; nil for none. The name of
// the interface is "" if it is unknown.
func (x *finder) definitionOfPod(pod *podstate.Pod, ifName string, addr netip.Addr) *ippool.NAD {
	if pod == nil {
		return nil
	}
	for i := range pod.Interfaces {
		f := &pod.Interfaces[i]
		if (ifName == "" || f.Name == ifName) && slices.Contains(f.Addresses, addr) {
			return x.NAD(f.Network)
		}
	}
	return nil
}

// rangesWith are the ranges of a definition that contain an address.
func rangesWith(nad *ippool.NAD, addr netip.Addr) (found []facts.DefinedRange) {
	if nad == nil {
		return nil
	}
	for _, n := range nad.Networks {
		for _, r := range n.Ranges {
			if at := (facts.DefinedRange{Network: n.Name, Prefix: r}); r.Contains(addr) && !slices.Contains(found, at) {
				found = append(found, at)
			}
		}
	}
	return found
}

// readPools are the pools that an ADD of a carrier's network reads for its address. If any is the node's slice, they
// are its slices only: no DEL of the sandbox would release the address in another node's.
func (x *finder) readPools(c *carriage) (found []*facts.Pool) {
	isOwn := func(p *facts.Pool) bool { return slices.Contains(p.Slice, c.node) }
	for _, p := range x.PoolsAt(c.addr) {
		if x.reads(c, p) {
			found = append(found, p)
		}
	}
	if slices.ContainsFunc(found, isOwn) {
		found = slices.DeleteFunc(found, func(p *facts.Pool) bool { return !isOwn(p) })
	}
	return found
}

func (x *finder) reads(c *carriage, p *facts.Pool) bool {
	return slices.ContainsFunc(c.today, func(at facts.DefinedRange) bool { return x.IsReadBy(p, at) }) ||
		c.cached != nil && p.Records(c.cached.NetworkName) && x.IsOfRange(p, c.cached.Range)
}

// isRecorded reports whether an entry for the carrier keeps its address from ADDs in a range. It is in a pool of the
// range, or in one that its own network reads today. Another node's slice does not count beside the node's own: an ADD
// on the node reads that one.
func (x *finder) isRecorded(c *carriage, prefix netip.Prefix) bool {
	own := c.own
	if len(own) == 0 {
		own = c.today
	}
	isRead := func(p *facts.Pool) bool {
		return len(c.today) == 0 || p.Range.Prefix() == prefix ||
			slices.ContainsFunc(own, func(at facts.DefinedRange) bool { return x.IsReadBy(p, at) })
	}
	hasOwn := slices.ContainsFunc(x.PoolsAt(c.addr), func(p *facts.Pool) bool {
		return slices.Contains(p.Slice, c.node) && x.reads(c, p)
	})
	return slices.ContainsFunc(x.poolsWithEntry(c), func(p *facts.Pool) bool {
		isOthers := len(p.Slice) > 0 && !slices.Contains(p.Slice, c.node)
		return isRead(p) && (p.Unsupported != "" || p.KeepsEntry(c.addr)) && !(hasOwn && isOthers)
	})
}

// poolsWithEntry are the pools that have, or in an unsupported range may have, the carrier's entry for its address.
func (x *finder) poolsWithEntry(c *carriage) []*facts.Pool {
	found := x.UnsupportedWith(cmp.Or(c.podRef, c.containerID), c.addr)
	for _, e := range x.EntriesFor(c.addr) {
		if c.isIts(e.Allocation) {
			found = append(found, e.Pool)
		}
	}
	return found
}

// isReserved reports whether the carrier's reservation keeps its address from all ADDs that read a pool.
func (x *finder) isReserved(c *carriage, p *facts.Pool) bool {
	return len(c.today) > 0 && !slices.ContainsFunc(c.today, func(at facts.DefinedRange) bool {
		return x.IsReadBy(p, at) && !x.isReservedIn(c, at, p.Namespace)
	})
}

// isReservedIn reports whether the carrier has an entry in any pool, with the reservation that keeps its address from
// ADDs in a range: they skip the reservations of other pods, if the definition uses overlapping ranges (whereabouts
// v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate). The namespace is "" for that of the entry.
// While reservations are unknown, it may have one.
func (x *finder) isReservedIn(c *carriage, at facts.DefinedRange, namespace string) bool {
	isUnknown := !x.Base().Reservations.IsKnown()
	return x.ReservesOverlaps(at) && slices.ContainsFunc(x.poolsWithEntry(c), func(p *facts.Pool) bool {
		if isUnknown {
			return true
		}
		r := x.ReservationNamed(cmp.Or(namespace, p.Namespace), ippool.ReservationName(at.Network, c.addr))
		isOfEntry := func(e facts.Entry) bool { return c.isIts(e.Allocation) && r.PodRef == e.PodRef }
		return r != nil && r.Problem == "" && !r.Deleting &&
			(p.Owners[r.PodRef] || slices.ContainsFunc(p.EntriesAt(c.addr), isOfEntry))
	})
}
