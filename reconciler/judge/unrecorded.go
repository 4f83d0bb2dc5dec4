package judge

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// unrecorded are the addresses that somebody carries and no pool has an entry for.
func (x *Index) unrecorded() (found []Finding) {
	var addresses []netip.Addr
	lacks := func(addr netip.Addr, isOf func(*pool) bool) bool {
		return slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.hasNoEntryFor(addr) && isOf(p) })
	}
	for addr, carriers := range x.sandboxesByAddress {
		if slices.ContainsFunc(carriers, func(b sandboxAddress) bool {
			running := b.sandbox != nil && b.sandbox.State == v1alpha1.SandboxReady || !x.o.Fenced.IsZero()
			return running && (lacks(addr, func(p *pool) bool { return p.isOfNetwork(b.NetworkName) }) || x.missingPool(b.containerID(), b.Address, addr) != nil)
		}) {
			addresses = append(addresses, addr)
		}
	}
	for addr, carriers := range x.podsByAddress {
		if slices.ContainsFunc(carriers, func(c podAddress) bool {
			return c.nad != nil && c.pod.Phase == podstate.Live && lacks(addr, func(p *pool) bool { return p.mapped(c.nad) })
		}) {
			addresses = append(addresses, addr)
		}
	}
	for _, addr := range uniqueAddresses(addresses) {
		found = append(found, x.unrecordedAt(addr)...)
	}
	return found
}

// unrecordedAt are the pools that have no entry for an address which a live pod
// or a READY sandbox carries on their network: the next ADD may hand it out
// again. The pool is known by the CNI result cache or by a readable
// NetworkAttachmentDefinition, never by podIPs; one that is not there at all by both.
func (x *Index) unrecordedAt(addr netip.Addr) []Finding {
	var found []Finding
	var lacking []*pool
	for _, p := range x.poolsAt(addr) {
		if p.hasNoEntryFor(addr) {
			lacking = append(lacking, p)
		}
	}
	said := map[*pool]bool{}      // a pod and its sandbox both tell of one address
	recorded := map[string]bool{} // pods whose sandboxes have an entry, in whatever pool
	for _, b := range x.sandboxesByAddress[addr] {
		if x.recordedAnywhere(&b, addr) {
			recorded[b.name()] = true
			continue
		}
		fenced := x.renewedBehindFence(0, b.report.node)
		if !x.needsEntry(&b, fenced) || !fenced && !x.doneWithADD(&b) {
			continue
		}
		for _, p := range x.poolsWithout(&b, addr, lacking) {
			first := !said[p] // of two that carry it one has the entry, and the other is a Conflict
			said[p] = true
			f := p.unrecorded(addr, b.name(), b.containerID(), b.report.Name)
			if podRef, ok := x.podRefFor(&b); ok && first {
				f.Repair = p.entryFor(addr, &b, podRef)
				f.Repair.Fenced, f.Repair.NewPool = fenced, p.missing
			}
			found = append(found, f)
		}
	}
	for _, c := range x.podsAt(addr) {
		if c.nad == nil || c.pod.Phase != podstate.Live || x.now.Sub(c.pod.Created) < addTimeLimit {
			continue // what was read first may be older than the pod
		}
		for _, p := range lacking {
			if !p.mapped(c.nad) || said[p] || recorded[c.pod.String()] {
				continue
			}
			f := p.unrecorded(addr, c.pod.String(), "", c.pod.Node)
			f.Message += "; its sandbox is not known, so that no entry can be written back"
			found = append(found, f)
		}
	}
	return found
}

// recordedAnywhere reports whether any pool records the address for the sandbox's interface: also one
// in another namespace, of a slice, or of a network whose name is not in the node's files.
func (x *Index) recordedAnywhere(b *sandboxAddress, addr netip.Addr) bool {
	return slices.ContainsFunc(x.entriesFor(nil, addr), func(e entry) bool {
		return e.ContainerID == b.containerID() && (e.IfName == "" || e.IfName == b.IfName)
	})
}

// poolsWithout are those of the pools that lack an address which are of a sandbox's network
// and range; where the pool of these is not there at all, that one.
func (x *Index) poolsWithout(b *sandboxAddress, addr netip.Addr, lacking []*pool) []*pool {
	if p := x.missingPool(b.containerID(), b.Address, addr); p != nil {
		return []*pool{p}
	}
	var found []*pool
	for _, p := range lacking {
		if p.isOfNetwork(b.NetworkName) && x.isRangeOf(p, b.Range) {
			found = append(found, p)
		}
	}
	return found
}

// isRangeOf reports whether a cached range is the pool's, or a range that the pool
// is a slice of.
func (x *Index) isRangeOf(p *pool, text string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	if err != nil {
		return false
	}
	return r == p.Range.Prefix() ||
		len(p.SliceNodes(x.nodeNames)) > 0 && r.Contains(p.Range.Prefix().Addr())
}

func (p *pool) unrecorded(addr netip.Addr, pod, containerID, node string) Finding {
	f := Finding{Kind: Unrecorded, IP: addr.String(), Pool: p.ref, Pods: []string{pod}, Node: node,
		Message: fmt.Sprintf("%s carries %s, and pool %s has no entry for it: the next ADD may hand it out again", pod, addr, p.ref)}
	if p.missing {
		f.Message = fmt.Sprintf("%s carries %s, and pool %s is not there: the next ADD makes it, empty, and may hand the address out again", pod, addr, p.ref)
	}
	if containerID != "" {
		f.ContainerIDs = []string{containerID}
	}
	return f
}
