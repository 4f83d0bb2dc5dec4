package facts

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

// PodAddress is an address in the network-status of a pod that is not finished.
type PodAddress struct {
	Pod       *podstate.Pod
	NAD       *ippool.NAD // nil if it cannot be read
	Interface *podstate.Interface
}

// carriedBy are the addresses of pods in the range of a pool or a definition, on a network of whereabouts or on an
// unknown one, those of an address ordered by name. A pod that was never bound to a node has no network, whatever its
// network-status says. The node of a pod that proves nothing may be unknown.
func (f *Facts) carriedBy(pods iter.Seq[*podstate.Pod], n int) map[netip.Addr][]PodAddress {
	found := make(map[netip.Addr][]PodAddress, n)
	for p := range pods {
		if p == nil || p.Node == "" && p.Contradiction == "" {
			continue
		}
		for i := range p.Interfaces {
			iface := &p.Interfaces[i]
			nad := f.nads[iface.Network]
			if nad != nil && len(nad.Networks) == 0 {
				continue
			}
			for _, addr := range iface.Addresses {
				if len(f.PoolsAt(addr)) > 0 || f.IsDefined(addr) {
					found[addr] = append(found[addr], PodAddress{p, nad, iface})
				}
			}
		}
	}
	for _, at := range found {
		sortByPod(at)
	}
	return found
}

func sortByPod(all []PodAddress) {
	if len(all) < 2 {
		return
	}
	slices.SortStableFunc(all, func(a, b PodAddress) int {
		return compareNames(a.Pod.NamespacedName, b.Pod.NamespacedName)
	})
}

// Pod is a pod by its name, nil if it does not exist.
func (f *Facts) Pod(namespace, name string) *podstate.Pod {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if p, changed := f.live.pods[at]; changed {
		return p
	}
	return f.o.Pods[at]
}

// Owner is the pod by an owner's name. An owner with a UID is a phantom, whose pod does not exist.
func (f *Facts) Owner(owner ippool.PodRef) *podstate.Pod {
	if owner.UID != "" {
		return nil
	}
	return f.Pod(owner.Namespace, owner.Name)
}

// PodOf is the pod that a sandbox belongs to, nil if the API does not have it.
func (f *Facts) PodOf(g *Mention) *podstate.Pod {
	if p := f.Pod(g.Namespace, g.Name); p != nil && p.HasUID(g.UID) {
		return p
	}
	return nil
}

// PodsAt are the pods that carry an address by their network-status, ordered by name. A pod whose sandbox is reported
// with all addresses is in sandboxesByAddress instead. A terminating pod whose sandboxes have ended carries nothing. A
// pod whose networks are known to be others does not carry it either.
func (f *Facts) PodsAt(addr netip.Addr) (found []PodAddress) {
	for _, c := range f.PodsNaming(addr) {
		if !f.IsReported(c.Pod) && !f.HasStopped(c.Pod) && !f.hasOtherNetworks(c.Pod, addr) {
			found = append(found, c)
		}
	}
	return found
}

// PodsNaming are the pods whose network-status names an address, ordered by name. The caller must not change the slice.
func (f *Facts) PodsNaming(addr netip.Addr) []PodAddress {
	if found, changed := f.live.podsByAddress[addr]; changed {
		return found
	}
	return f.podsByAddress[addr]
}

// changedCarriers are the lists of podsByAddress that the live pods change.
func (f *Facts) changedCarriers() map[netip.Addr][]PodAddress {
	found := f.carriedBy(maps.Values(f.live.pods), len(f.live.pods))
	for name := range f.live.pods {
		before := f.o.Pods[name]
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
		others := slices.DeleteFunc(slices.Clone(f.podsByAddress[addr]), func(c PodAddress) bool {
			_, changed := f.live.pods[c.Pod.NamespacedName]
			return changed
		})
		found[addr] = append(others, now...)
		sortByPod(found[addr])
	}
	return found
}

// IsReported reports whether the fresh report of a pod's node lists its sandbox with all of its addresses.
func (f *Facts) IsReported(p *podstate.Pod) bool {
	r := f.byNode[p.Node]
	return r != nil && r.IsFresh(f.now) &&
		(p.UID != "" && r.Complete[p.UID] || p.RuntimeUID != "" && r.Complete[p.RuntimeUID])
}

// hasOtherNetworks reports whether the fresh report of a pod's node has all networks of the pod's sandboxes, by their
// CNI cache files, and none of them has the address.
func (f *Facts) hasOtherNetworks(p *podstate.Pod, addr netip.Addr) bool {
	r := f.byNode[p.Node]
	if r == nil || !r.incomplete[p.String()] || !f.ProvesAbsence(p.Node) || r.MayAttach(p) {
		return false
	}
	mayBe := func(n v1alpha1.Network) bool {
		prefix, err := netip.ParsePrefix(n.Range)
		return err != nil || prefix.Contains(addr)
	}
	isListed := false
	for i := range r.Sandboxes {
		g := &Mention{r, OfSandbox, &r.Sandboxes[i]}
		if !IsOf(g, p) || !f.MayRun(g) {
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
func (f *Facts) isRefuted(p *podstate.Pod) bool {
	r := f.byNode[p.Node]
	return f.ProvesAbsence(p.Node) && f.now.Sub(p.CreatedAt) > MinAbsenceWhilePending &&
		!r.incomplete[p.String()] && !r.incomplete["/"]
}

// RunningAt are the pods, each with its node, whose sandboxes have an address and may run. A closed network has none.
func (f *Facts) RunningAt(addr netip.Addr) map[string]bool {
	pods := map[string]bool{}
	for _, b := range f.sandboxesByAddress[addr] {
		if f.MayRun(&b.Mention) {
			pods[b.Report.Name+"/"+b.Pod()] = true
		}
	}
	return pods
}

// IsRefutedAt reports whether isRefuted holds at an address, by RunningAt: no sandbox of the pod has it.
func (f *Facts) IsRefutedAt(p *podstate.Pod, running map[string]bool) bool {
	return !running[p.Node+"/"+p.String()] && f.isRefuted(p)
}

// Denies reports whether a fresh report shows that a pod does not have an address of whereabouts, which its
// network-status names.
func (f *Facts) Denies(p *podstate.Pod, addr netip.Addr) bool {
	return f.HasStopped(p) || f.IsRefutedAt(p, f.RunningAt(addr)) || f.hasOtherNetworks(p, addr)
}

// HasStopped reports whether the fresh report of a terminating pod's node shows that the network of each of the pod's
// sandboxes is closed. kubelet creates no other sandbox for it, and its network-status stays until it is deleted.
func (f *Facts) HasStopped(p *podstate.Pod) bool {
	if p.Phase != podstate.Terminating || f.NodeCondition(p.Node) != Reporting {
		return false
	}
	r, hasEnded := f.byNode[p.Node], false
	for i := range r.Sandboxes {
		if g := (&Mention{r, OfSandbox, &r.Sandboxes[i]}); IsOf(g, p) {
			if f.MayRun(g) {
				return false
			}
			hasEnded = hasEnded || p.HasUID(g.UID)
		}
	}
	if r.MayAttach(p) {
		return false
	}
	return hasEnded || slices.ContainsFunc(r.Gone, func(g v1alpha1.Gone) bool { return p.HasUID(g.UID) })
}

// MayAttach reports whether an ADD of a pod may be in progress, or its network may exist, by the CNI caches.
func (r *Report) MayAttach(p *podstate.Pod) bool {
	return slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool {
		s := &v1alpha1.Sandbox{UID: a.UID, Namespace: a.Namespace, Name: a.Name}
		return IsOf(&Mention{r, OfAttachment, s}, p) && !podstate.IsClosed(a.NetworkClosed)
	})
}

// IsOf reports whether a sandbox is, or may be, a pod's. A report may lack its UID or its name.
func IsOf(g *Mention, p *podstate.Pod) bool {
	if g.UID != "" {
		return p.HasUID(g.UID)
	}
	return g.Name == "" || g.Namespace == p.Namespace && g.Name == p.Name
}

// PodsByRef are the pods of podrefs, in this order; nil for one that does not exist.
func (f *Facts) PodsByRef(refs []string) (pods []*podstate.Pod) {
	for _, ref := range refs {
		namespace, name, _ := strings.Cut(ref, "/")
		pods = append(pods, f.Pod(namespace, name))
	}
	return pods
}

// MinAbsenceWhilePending is how long the sandbox of a Pending pod must be absent before it counts, whatever
// --confirm-after is. It is how long a report is fresh: the agent may have inspected its node before the ADD.
const MinAbsenceWhilePending = time.Minute
