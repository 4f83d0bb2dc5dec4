package judge

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// pendingNetwork reports whether a Pending pod has its network without an allocation's address: see Evidence.
// whereabouts' ADD may return an allocation of the pod without writing the ID of the new sandbox, so every sandbox of
// the pod counts.
func (x *judging) pendingNetwork(it *Item, e *Evidence, mentions []facts.Mention) (isComplete, isSuperseded bool) {
	hasEnded := e.Sandbox == Stopped || e.Sandbox == Gone
	if e.Phase != podstate.Pending || e.OnPod || it.Allocation == nil || !hasEnded ||
		!slices.Contains(e.Nodes, e.Pod.Node) || x.NodeCondition(e.Pod.Node) != facts.Reporting {
		return false, false
	}
	r := x.Report(e.Pod.Node)
	isReady := false
	for i := range r.Sandboxes {
		g := r.MentionOf(&r.Sandboxes[i])
		if !facts.IsOf(g, e.Pod) || !x.MayRun(g) {
			continue
		}
		if g.AddressesUnread || slices.Contains(g.Interfaces, it.IfName()) ||
			slices.ContainsFunc(g.Addresses, it.mayBeAddress) {
			return false, false
		}
		isReady = isReady || x.IsReady(g) && len(g.Addresses) > 0 && e.Pod.HasUID(g.UID)
	}
	if r.MayAttach(e.Pod) {
		return false, false
	}
	return isReady, x.hasYoungerSandbox(it, e, mentions, r)
}

// hasRun reports whether a report shows, or may show, a sandbox of a pod that was never bound to a node by its object.
// A restore of etcd may have brought back the pod as it was before. A pod without a UID may be that of any sandbox.
func (x *judging) hasRun(p *podstate.Pod, mentions []facts.Mention) bool {
	isOwn := func(g facts.Mention) bool { return p.HasUID(g.UID) }
	isComplete := func(r *facts.Report) bool { return r.Complete[p.UID] || r.Complete[p.RuntimeUID] }
	return p.UID == "" || slices.ContainsFunc(mentions, isOwn) || slices.ContainsFunc(x.Reports(), isComplete)
}

// mayBeAddress reports whether an address of a sandbox is, or may be, the item's.
func (it *Item) mayBeAddress(a v1alpha1.Address) bool {
	ip, isReadable := podstate.ParseAddress(a)
	return !isReadable || it.IsAbout(ip)
}

// hasYoungerSandbox reports whether another allocation of the same pod and interface in the pool names a sandbox that
// the report lists, and that was created after the item's sandbox, or, if that is no longer listed, after its end. Its
// ADD did not return the item's allocation, which existed, so no later ADD of this version does.
func (x *judging) hasYoungerSandbox(it *Item, e *Evidence, mentions []facts.Mention, r *facts.Report) bool {
	own := slices.IndexFunc(mentions, func(g facts.Mention) bool { return g.Report == r && g.Kind != facts.OfAttachment })
	if own < 0 || mentions[own].CreatedAt.IsZero() {
		return false
	}
	before := mentions[own].CreatedAt.Time
	return slices.ContainsFunc(it.pool.Allocations, func(a ippool.Allocation) bool {
		isSame := a.PodRef == it.PodRef() && (it.IfName() == "" || a.IfName == it.IfName())
		return isSame && a.ContainerID != it.ContainerID() && slices.ContainsFunc(x.Mentions(a.ContainerID),
			func(g facts.Mention) bool {
				return g.Report == r && g.Kind == facts.OfSandbox && x.MayRun(&g) && e.Pod.HasUID(g.UID) &&
					(x.IsReady(&g) && e.Sandbox == Gone || g.CreatedAt.After(before))
			})
	})
}
