package judge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// podAddress is an address in the network-status of a pod that is not finished.
type podAddress struct {
	pod   *podstate.Pod
	iface *podstate.Interface
	nad   *ippool.NAD // nil: it cannot be read
}

func (x *Index) addPods() {
	x.pods = make([]*podstate.Pod, 0, len(x.o.Pods))
	x.byName, x.podsByAddress = newLookup(len(x.o.Pods)), newLookup(len(x.o.Pods))
	x.youngPods, x.podsOn = map[*podstate.Pod]bool{}, map[string]int{}
	for _, p := range x.o.Pods {
		x.pods = append(x.pods, p)
	}
	for number, p := range x.pods {
		x.indexPod(uint32(number), p)
	}
}

// addPod reports whether the pod is on a node whose name was not known, where
// that matters.
func (x *Index) addPod(p *podstate.Pod) (newNode bool) {
	number := uint32(len(x.pods))
	if last := len(x.freePodNumbers) - 1; last >= 0 {
		number, x.freePodNumbers = x.freePodNumbers[last], x.freePodNumbers[:last]
		x.pods[number] = p
	} else {
		x.pods = append(x.pods, p)
	}
	return x.indexPod(number, p)
}

func (x *Index) indexPod(number uint32, p *podstate.Pod) (newNode bool) {
	x.byName.add(x.name(p.Namespace, p.Name), number)
	x.whereaboutsAddresses(p, func(addr netip.Addr, nad *ippool.NAD) {
		if x.podsByAddress.add(x.address(addr), number) {
			x.maybeConflicting = append(x.maybeConflicting, addr)
		}
		if nad != nil && p.Phase == podstate.Live &&
			slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.hasNoEntryFor(addr) && p.mapped(nad) }) {
			x.maybeUnrecorded = append(x.maybeUnrecorded, addr)
		}
		for _, o := range x.ambiguousPools {
			o.podCarries(addr)
		}
	})
	if x.ageMatters(p) {
		x.youngPods[p] = true
	}
	return x.addToNode(p.Node)
}

// addToNode and leaves count the pods by node where no Node object is known: their
// nodes are then all the nodes there are. They report whether those change.
func (x *Index) addToNode(node string) bool {
	if len(x.o.Nodes) > 0 || node == "" {
		return false
	}
	x.podsOn[node]++
	return !x.nodeNames[node]
}

func (x *Index) removeFromNode(node string) bool {
	if len(x.o.Nodes) > 0 || node == "" {
		return false
	}
	x.podsOn[node]--
	return x.podsOn[node] == 0 && x.byNode[node] == nil
}

// ageMatters reports whether a pod with an address is so new that its age will matter.
func (x *Index) ageMatters(p *podstate.Pod) bool {
	return x.now.Sub(p.Created) <= addTimeLimit &&
		slices.ContainsFunc(p.Interfaces, func(i podstate.Interface) bool { return len(i.Addresses) > 0 })
}

// whereaboutsAddresses calls f for the addresses of a pod that may matter to a pool or to
// another pod: those in a pool's range, of a network of whereabouts or of one that is
// not known. A pod that was never bound to a node has no network: what its
// network-status says was written by somebody else.
func (x *Index) whereaboutsAddresses(p *podstate.Pod, f func(netip.Addr, *ippool.NAD)) {
	if p.Node == "" {
		return
	}
	for i := range p.Interfaces {
		iface := &p.Interfaces[i]
		nad := x.nads[iface.Network]
		if nad != nil && len(nad.Networks) == 0 {
			continue
		}
		for _, addr := range iface.Addresses {
			if x.inRange(addr) {
				f(addr, nad)
			}
		}
	}
}

// pod is the pod by that name, nil if there is none.
func (x *Index) pod(namespace, name string) *podstate.Pod {
	if number, ok := x.podNumber(namespace, name); ok {
		return x.pods[number]
	}
	return nil
}

// owner is the pod by an owner's name. What a repair wrote for a phantom names a
// pod that is known to be none.
func (x *Index) owner(owner ippool.PodRef) *podstate.Pod {
	if owner.UID != "" {
		return nil
	}
	return x.pod(owner.Namespace, owner.Name)
}

func (x *Index) podNumber(namespace, name string) (uint32, bool) {
	for number := range x.byName.each(x.name(namespace, name)) {
		if p := x.pods[number]; p.Name == name && p.Namespace == namespace {
			return number, true
		}
	}
	return 0, false
}

// podsAt are the pods that carry an address, by name: what the runtime's report says of
// a pod's sandbox counts, where it says something, and not the annotation.
func (x *Index) podsAt(addr netip.Addr) []podAddress {
	return slices.DeleteFunc(x.podsNaming(addr), func(c podAddress) bool { return x.reported(c.pod) })
}

// podsNaming are the pods whose network-status names an address, by name.
func (x *Index) podsNaming(addr netip.Addr) []podAddress {
	var found []podAddress
	for _, number := range x.podsByAddress.all(x.address(addr)) {
		p := x.pods[number]
		for i := range p.Interfaces {
			iface := &p.Interfaces[i]
			for range occurrences(iface.Addresses, addr) {
				found = append(found, podAddress{p, iface, x.nads[iface.Network]})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b podAddress) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return found
}

// reported reports whether the fresh report of a pod's node lists its sandbox with
// all of its addresses.
func (x *Index) reported(p *podstate.Pod) bool {
	r := x.byNode[p.Node]
	return r != nil && r.fresh && (p.UID != "" && r.hasComplete(p.UID) || p.RuntimeUID != "" && r.hasComplete(p.RuntimeUID))
}

// refutes reports whether the fresh report of a pod's node has every address of each
// sandbox of the pod. The report must be younger than the pod: a fresh one is at most
// HeardSince old. A sandbox without a name may be any pod's.
func (x *Index) refutes(p *podstate.Pod) bool {
	r := x.byNode[p.Node]
	return r != nil && r.fresh && x.now.Sub(p.Created) > HeardSince && !r.lacks(p.String()) && !r.lacks("/")
}

func occurrences(all []netip.Addr, addr netip.Addr) (n int) {
	for _, a := range all {
		if a == addr {
			n++
		}
	}
	return n
}
