package findings

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// outsideDefinitions are the findings on addresses that no definition of today would assign: allocations that are in
// use or held, and addresses that a pod carries and no pool records. Nothing is found where the definition is unknown:
// the list is missing; the definition that the pod names is missing, cannot be read or is configured on the nodes; or
// nothing names one, and any definition is such, or no definition assigns from the pool. Nothing is found either on
// what an IPAMClaim keeps and on what an ADD may be assigning now.
func (x *finder) outsideDefinitions(items []*judge.Item) (found []Finding) {
	if !x.Base().NADs.IsKnown() {
		return nil
	}
	a := x.assigners()
	for _, it := range items {
		if it.Allocation != nil && it.Allocation.Problem == "" && it.Pool.Unsupported == "" {
			found = append(found, x.outsideAllocation(a, it)...)
		}
	}
	for addr := range x.CarriedAddresses() {
		found = append(found, x.outsideCarriers(a, addr)...)
	}
	return found
}

// outsideAllocation is the finding on an allocation that no definition of today would assign from its pool.
func (x *finder) outsideAllocation(a *assigners, it *judge.Item) []Finding {
	isStarting := it.Reason == judge.PodPending || it.Reason == judge.Recent
	if it.Verdict == judge.Stale || isStarting || it.IPAMClaim() != nil {
		return nil
	}
	addr, p := it.Address(), it.IndexedPool()
	today := a.from(p)
	if today.isRefused || today.usable.Contains(addr) {
		return nil
	}
	own, isKnown := x.definitionNamedFor(it)
	var why string
	switch {
	case !isKnown:
		return nil
	case own != nil:
		why = fmt.Sprintf("NetworkAttachmentDefinition %s would not assign it: %s", own, whyOutside(own, p.Pool, addr))
	case a.hasUnread || len(today.definitions) == 0:
		return nil
	default:
		why = "its definitions would not assign it: " + facts.AtMost(today.definitions, facts.NamesShown)
	}
	f := Finding{Kind: OutsideDefinition, IP: addr.String(), Pool: p.Ref(), Pods: []string{it.PodRef()},
		ContainerIDs: []string{it.ContainerID()}, Message: fmt.Sprintf("pool %s has %s for %s, and today %s", p.Ref(), addr,
			it.PodRef(), why)}
	f.nodes = x.nodesOf(f.Pods)
	return []Finding{f}
}

// definitionNamedFor is the definition that the pod of an allocation names for its address; nil if nothing names one.
// isKnown is false if one is named, and it is unknown what it assigns.
func (x *finder) definitionNamedFor(it *judge.Item) (nad *ippool.NAD, isKnown bool) {
	pod := x.Owner(it.Owner())
	if pod == nil {
		return nil, true
	}
	for i := range pod.Interfaces {
		f := &pod.Interfaces[i]
		if slices.Contains(f.Addresses, it.Address()) && (it.IfName() == "" || it.IfName() == f.Name) {
			nad = x.NAD(f.Network)
			return nad, nad != nil && assigns(nad)
		}
	}
	return nil, true
}

// assigns reports whether a readable definition is one of whereabouts that is not refused.
func assigns(nad *ippool.NAD) bool {
	return len(nad.Networks) > 0 &&
		!slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Refused != "" })
}

// whyOutside says why a definition would not assign an address from a pool.
func whyOutside(nad *ippool.NAD, p *ippool.Pool, addr netip.Addr) string {
	var why []string
	for _, n := range nad.Networks {
		text := n.WhyNot(addr)
		_, isItsPool := n.Assigns(p)
		switch {
		case isItsPool && text != "":
			return text
		case text == "" && n.Slices:
			text = fmt.Sprintf("it assigns from slices of %s", n.Ranges[0])
		case text == "":
			i := slices.IndexFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
			text = "it assigns from pool " + ippool.PoolName(n.Name, n.Ranges[i])
		}
		why = append(why, text)
	}
	return strings.Join(facts.SortedUnique(why), "; ")
}

// outsideCarriers are the findings on live pods that carry an address without an allocation, by a definition that would
// not assign it. An interface may have static addresses beside the one that whereabouts assigned: nothing is found on
// one that has several of the address's family.
func (x *finder) outsideCarriers(a *assigners, addr netip.Addr) (found []Finding) {
	isFound := map[string]bool{} // pods
	add := func(pod *podstate.Pod, c *carriage, nad *ippool.NAD, network string) *Finding {
		if nad == nil || !assigns(nad) || pod.Phase != podstate.Live || isFound[pod.String()] ||
			x.Now().Sub(pod.CreatedAt) < judge.AddTimeLimit || len(x.poolsWithEntry(c)) > 0 ||
			mayBeStatic(pod, c) || a.mayAssign(nad, network, addr) {
			return nil
		}
		isFound[pod.String()] = true
		found = append(found, Finding{Kind: OutsideDefinition, IP: addr.String(), Pods: []string{pod.String()},
			Node: pod.Node, Message: fmt.Sprintf("%s carries %s, which no pool records for it, and today "+
				"NetworkAttachmentDefinition %s would not assign it: %s", pod, addr, nad, nad.Networks[0].WhyNot(addr))})
		return &found[len(found)-1]
	}
	for i := range x.SandboxesAt(addr) {
		b := &x.SandboxesAt(addr)[i]
		pod := x.PodOf(&b.Mention)
		if pod == nil || !x.isDoneWithADD(b) {
			continue
		}
		if f := add(pod, x.carriageOf(b, addr), x.definitionOf(b, addr), b.NetworkName); f != nil {
			f.ContainerIDs = []string{b.ID}
			x.asReported(f, b.Report)
		}
	}
	for _, p := range x.PodsAt(addr) {
		if p.NAD != nil && len(p.NAD.Networks) > 0 {
			add(p.Pod, x.carriageOfPod(p, addr), p.NAD, p.NAD.Networks[0].Name)
		}
	}
	return found
}

// mayBeStatic reports whether the interface of a carrier has several addresses of the same family by the pod's
// network-status.
func mayBeStatic(pod *podstate.Pod, c *carriage) bool {
	count := 0
	for i := range pod.Interfaces {
		for _, other := range pod.Interfaces[i].Addresses {
			if pod.Interfaces[i].Name == c.ifName && other.Is4() == c.addr.Is4() {
				count++
			}
		}
	}
	return count > 1
}

// mayAssign reports whether a definition, or another one of its networks or of one more network, may assign an address
// today, from whatever pool.
func (a *assigners) mayAssign(nad *ippool.NAD, network string, addr netip.Addr) bool {
	networks := []string{network}
	for _, n := range nad.Networks {
		networks = append(networks, n.Name)
	}
	for _, bits := range a.lengths {
		around, err := addr.Prefix(bits)
		if err != nil {
			continue
		}
		for _, name := range facts.SortedUnique(networks) {
			for _, n := range a.at[facts.DefinedRange{Network: name, Prefix: around}] {
				if n.Refused != "" || n.MayAssign(addr) {
					return true
				}
			}
		}
	}
	return false
}
