package judge

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// podAddress is an address in the network-status of a pod that is not finished.
type podAddress struct {
	pod   *podstate.Pod
	nad   *ippool.NAD // nil if it cannot be read
	iface *podstate.Interface
}

// carriedBy are the addresses of pods in the range of a pool or a definition, on a network of whereabouts or on an
// unknown one, those of an address ordered by name. A pod that was never bound to a node has no network, whatever its
// network-status says. The node of a pod that proves nothing may be unknown.
func (x *Index) carriedBy(pods iter.Seq[*podstate.Pod], n int) map[netip.Addr][]podAddress {
	found := make(map[netip.Addr][]podAddress, n)
	for p := range pods {
		if p == nil || p.Node == "" && p.Contradiction == "" {
			continue
		}
		for i := range p.Interfaces {
			iface := &p.Interfaces[i]
			nad := x.nads[iface.Network]
			if nad != nil && len(nad.Networks) == 0 {
				continue
			}
			for _, addr := range iface.Addresses {
				if len(x.poolsAt(addr)) > 0 || x.isDefined(addr) {
					found[addr] = append(found[addr], podAddress{p, nad, iface})
				}
			}
		}
	}
	for _, at := range found {
		sortByPod(at)
	}
	return found
}

func sortByPod(all []podAddress) {
	if len(all) < 2 {
		return
	}
	slices.SortStableFunc(all, func(a, b podAddress) int {
		return compareNames(a.pod.NamespacedName, b.pod.NamespacedName)
	})
}

func (x *Index) pod(namespace, name string) *podstate.Pod {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if p, changed := x.live.pods[at]; changed {
		return p
	}
	return x.o.Pods[at]
}

// owner is the pod by an owner's name. An owner with a UID is a phantom, whose pod does not exist.
func (x *Index) owner(owner ippool.PodRef) *podstate.Pod {
	if owner.UID != "" {
		return nil
	}
	return x.pod(owner.Namespace, owner.Name)
}

func (x *Index) podOf(g *mention) *podstate.Pod {
	if p := x.pod(g.Namespace, g.Name); p != nil && p.HasUID(g.UID) {
		return p
	}
	return nil
}

// podsAt are the pods that carry an address by their network-status, ordered by name. A pod whose sandbox is reported
// with all addresses is in sandboxesByAddress instead. A terminating pod whose sandboxes have ended carries nothing. A
// pod whose networks are known to be others does not carry it either.
func (x *Index) podsAt(addr netip.Addr) (found []podAddress) {
	for _, c := range x.podsNaming(addr) {
		if !x.isReported(c.pod) && !x.hasStopped(c.pod) && !x.hasOtherNetworks(c.pod, addr) {
			found = append(found, c)
		}
	}
	return found
}

// podsNaming are the pods whose network-status names an address, ordered by name. The caller must not change the slice.
func (x *Index) podsNaming(addr netip.Addr) []podAddress {
	if found, changed := x.live.podsByAddress[addr]; changed {
		return found
	}
	return x.podsByAddress[addr]
}

// changedCarriers are the lists of podsByAddress that the live pods change.
func (x *Index) changedCarriers() map[netip.Addr][]podAddress {
	found := x.carriedBy(maps.Values(x.live.pods), len(x.live.pods))
	for name := range x.live.pods {
		before := x.o.Pods[name]
		if before == nil {
			continue
		}
		for _, iface := range before.Interfaces {
			for _, addr := range iface.Addresses {
				if _, isThere := found[addr]; !isThere {
					found[addr] = nil // its list changes, even to none
				}
			}
		}
	}
	for addr, now := range found {
		others := slices.DeleteFunc(slices.Clone(x.podsByAddress[addr]), func(c podAddress) bool {
			_, changed := x.live.pods[c.pod.NamespacedName]
			return changed
		})
		found[addr] = append(others, now...)
		sortByPod(found[addr])
	}
	return found
}

// isReported reports whether the fresh report of a pod's node lists its sandbox with all of its addresses.
func (x *Index) isReported(p *podstate.Pod) bool {
	r := x.byNode[p.Node]
	return r != nil && r.IsFresh(x.now) &&
		(p.UID != "" && r.complete[p.UID] || p.RuntimeUID != "" && r.complete[p.RuntimeUID])
}

// hasOtherNetworks reports whether the fresh report of a pod's node has all networks of the pod's sandboxes, by their
// CNI cache files, and none of them has the address.
func (x *Index) hasOtherNetworks(p *podstate.Pod, addr netip.Addr) bool {
	r := x.byNode[p.Node]
	if r == nil || !r.incomplete[p.String()] || !x.provesAbsence(p.Node) || r.mayAttach(p) {
		return false
	}
	mayBe := func(n v1alpha1.Network) bool {
		prefix, err := netip.ParsePrefix(n.Range)
		return err != nil || prefix.Contains(addr)
	}
	isListed := false
	for i := range r.Sandboxes {
		g := &mention{r, ofSandbox, &r.Sandboxes[i]}
		if !isOf(g, p) || !x.mayRun(g) {
			continue
		}
		isListedHere := slices.ContainsFunc(g.Addresses, func(a v1alpha1.Address) bool {
			ip, ok := podstate.ParseAddress(a)
			return !ok || ip == addr
		})
		if len(g.MayCarry) == 0 || isListedHere || slices.ContainsFunc(g.MayCarry, mayBe) {
			return false
		}
		isListed = true
	}
	return isListed
}

// isRefuted reports whether the fresh report of a pod's node has all addresses of the pod's sandboxes. The report must
// be younger than the pod: a fresh one is at most a minute old. A sandbox without a name may be any pod's.
func (x *Index) isRefuted(p *podstate.Pod) bool {
	r := x.byNode[p.Node]
	return x.provesAbsence(p.Node) && x.now.Sub(p.CreatedAt) > MinAbsenceWhilePending &&
		!r.incomplete[p.String()] && !r.incomplete["/"]
}

// runningAt are the pods, each with its node, whose sandboxes have an address and may run. A closed network has none.
func (x *Index) runningAt(addr netip.Addr) map[string]bool {
	pods := map[string]bool{}
	for _, b := range x.sandboxesByAddress[addr] {
		if x.mayRun(&b.mention) {
			pods[b.report.Name+"/"+b.pod()] = true
		}
	}
	return pods
}

// isRefutedAt reports whether isRefuted holds at an address, by runningAt: no sandbox of the pod has it.
func (x *Index) isRefutedAt(p *podstate.Pod, running map[string]bool) bool {
	return !running[p.Node+"/"+p.String()] && x.isRefuted(p)
}

// Denies reports whether a fresh report shows that a pod does not have an address of whereabouts, which its
// network-status names.
func (x *Index) Denies(p *podstate.Pod, addr netip.Addr) bool {
	return x.hasStopped(p) || x.isRefutedAt(p, x.runningAt(addr)) || x.hasOtherNetworks(p, addr)
}

// hasStopped reports whether the fresh report of a terminating pod's node shows that the network of each of the pod's
// sandboxes is closed. kubelet creates no other sandbox for it, and its network-status stays until it is deleted.
func (x *Index) hasStopped(p *podstate.Pod) bool {
	if p.Phase != podstate.Terminating || x.nodeCondition(p.Node) != reporting {
		return false
	}
	r, hasEnded := x.byNode[p.Node], false
	for i := range r.Sandboxes {
		if g := (&mention{r, ofSandbox, &r.Sandboxes[i]}); isOf(g, p) {
			if x.mayRun(g) {
				return false
			}
			hasEnded = hasEnded || p.HasUID(g.UID)
		}
	}
	if r.mayAttach(p) {
		return false
	}
	return hasEnded || slices.ContainsFunc(r.Gone, func(g v1alpha1.Gone) bool { return p.HasUID(g.UID) })
}

// mayAttach reports whether an ADD of a pod may be in progress, or its network may exist, by the CNI caches.
func (r *report) mayAttach(p *podstate.Pod) bool {
	return slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool {
		s := &v1alpha1.Sandbox{UID: a.UID, Namespace: a.Namespace, Name: a.Name}
		return isOf(&mention{r, ofAttachment, s}, p) && !podstate.IsClosed(a.NetworkClosed)
	})
}

// isOf reports whether a sandbox is, or may be, a pod's. A report may lack its UID or its name.
func isOf(g *mention, p *podstate.Pod) bool {
	if g.UID != "" {
		return p.HasUID(g.UID)
	}
	return g.Name == "" || g.Namespace == p.Namespace && g.Name == p.Name
}

func (x *Index) podsByRef(refs []string) (pods []*podstate.Pod) {
	for _, ref := range refs {
		namespace, name, _ := strings.Cut(ref, "/")
		pods = append(pods, x.pod(namespace, name))
	}
	return pods
}

// MinAbsenceWhilePending is how long the sandbox of a Pending pod must be absent before it counts, whatever
// --confirm-after is. It is how long a report is fresh: the agent may have inspected its node before the ADD.
const MinAbsenceWhilePending = time.Minute
