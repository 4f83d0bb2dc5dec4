package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// pendingNetwork reports whether a Pending pod has its network without an allocation's address: see Evidence.
// whereabouts' ADD may return an allocation of the pod without writing the ID of the new sandbox, so every sandbox of
// the pod counts.
func (x *judging) pendingNetwork(it *Item, e *Evidence, mentions []mention) (isComplete, isSuperseded bool) {
	hasEnded := e.Sandbox == Stopped || e.Sandbox == Gone
	if e.Phase != podstate.Pending || e.OnPod || it.Allocation == nil || !hasEnded ||
		!slices.Contains(e.Nodes, e.Pod.Node) || x.nodeCondition(e.Pod.Node) != reporting {
		return false, false
	}
	r := x.Report(e.Pod.Node)
	isReady := false
	for i := range r.Sandboxes {
		g := &mention{r, ofSandbox, &r.Sandboxes[i]}
		if !isOf(g, e.Pod) || !x.mayRun(g) {
			continue
		}
		if g.AddressesUnread || slices.Contains(g.Interfaces, it.IfName()) ||
			slices.ContainsFunc(g.Addresses, it.mayBeAddress) {
			return false, false
		}
		isReady = isReady || x.isReady(g) && len(g.Addresses) > 0 && e.Pod.HasUID(g.UID)
	}
	if r.mayAttach(e.Pod) {
		return false, false
	}
	return isReady, x.hasYoungerSandbox(it, e, mentions, r)
}

// hasRun reports whether a report shows, or may show, a sandbox of a pod that was never bound to a node by its object.
// A restore of etcd may have brought back the pod as it was before. A pod without a UID may be that of any sandbox.
func (x *judging) hasRun(p *podstate.Pod, mentions []mention) bool {
	isOwn := func(g mention) bool { return p.HasUID(g.UID) }
	isComplete := func(r *report) bool { return r.complete[p.UID] || r.complete[p.RuntimeUID] }
	return p.UID == "" || slices.ContainsFunc(mentions, isOwn) || slices.ContainsFunc(x.Reports(), isComplete)
}

// mayBeAddress reports whether an address of a sandbox is, or may be, the item's.
func (it *Item) mayBeAddress(a v1alpha1.Address) bool {
	ip, isReadable := podstate.ParseAddress(a)
	return !isReadable || it.isAbout(ip)
}

// hasYoungerSandbox reports whether another allocation of the same pod and interface in the pool names a sandbox that
// the report lists, and that was created after the item's sandbox, or, if that is no longer listed, after its end. Its
// ADD did not return the item's allocation, which existed, so no later ADD of this version does.
func (x *judging) hasYoungerSandbox(it *Item, e *Evidence, mentions []mention, r *report) bool {
	own := slices.IndexFunc(mentions, func(g mention) bool { return g.report == r && g.kind != ofAttachment })
	if own < 0 || mentions[own].CreatedAt.IsZero() {
		return false
	}
	before := mentions[own].CreatedAt.Time
	return slices.ContainsFunc(it.pool.Allocations, func(a ippool.Allocation) bool {
		isSame := a.PodRef == it.PodRef() && (it.IfName() == "" || a.IfName == it.IfName())
		return isSame && a.ContainerID != it.ContainerID() && slices.ContainsFunc(x.Mentions(a.ContainerID),
			func(g mention) bool {
				return g.report == r && g.kind == ofSandbox && x.mayRun(&g) && e.Pod.HasUID(g.UID) &&
					(x.isReady(&g) && e.Sandbox == Gone || g.CreatedAt.After(before))
			})
	})
}
