package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// pendingNetwork reports whether a Pending pod has its network without an allocation's address: see Evidence.
// whereabouts' ADD may return an allocation of the pod without writing the ID of the new sandbox, so every sandbox of
// the pod counts.
func (x *Index) pendingNetwork(it *Item, e *Evidence, mentions []mention) (isComplete, isSuperseded bool) {
	hasEnded := e.Sandbox == Stopped || e.Sandbox == Gone
	if e.Phase != podstate.Pending || e.OnPod || it.Allocation == nil || !hasEnded ||
		!slices.Contains(e.Nodes, e.Pod.Node) || x.nodeCondition(e.Pod.Node) != reporting {
		return false, false
	}
	r := x.byNode[e.Pod.Node]
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
func (x *Index) hasRun(p *podstate.Pod, mentions []mention) bool {
	isOwn := func(g mention) bool { return p.HasUID(g.UID) }
	isComplete := func(r *report) bool { return r.complete[p.UID] || r.complete[p.RuntimeUID] }
	return p.UID == "" || slices.ContainsFunc(mentions, isOwn) || slices.ContainsFunc(x.reports, isComplete)
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

// mayBeAddress reports whether an address of a sandbox is, or may be, the item's.
func (it *Item) mayBeAddress(a v1alpha1.Address) bool {
	ip, isReadable := podstate.ParseAddress(a)
	return !isReadable || it.isAbout(ip)
}

// hasYoungerSandbox reports whether another allocation of the same pod and interface in the pool names a sandbox that
// the report lists, and that was created after the item's sandbox, or, if that is no longer listed, after its end. Its
// ADD did not return the item's allocation, which existed, so no later ADD of this version does.
func (x *Index) hasYoungerSandbox(it *Item, e *Evidence, mentions []mention, r *report) bool {
	own := slices.IndexFunc(mentions, func(g mention) bool { return g.report == r && g.kind != ofAttachment })
	if own < 0 || mentions[own].CreatedAt.IsZero() {
		return false
	}
	before := mentions[own].CreatedAt.Time
	return slices.ContainsFunc(it.pool.Allocations, func(a ippool.Allocation) bool {
		isSame := a.PodRef == it.PodRef() && (it.IfName() == "" || a.IfName == it.IfName())
		return isSame && a.ContainerID != it.ContainerID() && slices.ContainsFunc(x.byContainerID[a.ContainerID],
			func(g mention) bool {
				return g.report == r && g.kind == ofSandbox && x.mayRun(&g) && e.Pod.HasUID(g.UID) &&
					(x.isReady(&g) && e.Sandbox == Gone || g.CreatedAt.After(before))
			})
	})
}

// pendingLeaks are the findings on Pending pods with several allocations of one interface in a pool, whose sandboxes
// have ended. They are in use while the next sandbox may get one of them, and may fill the pool.
func pendingLeaks(items []*Item) (found []Finding) {
	type owner struct {
		pool           *ippool.Pool
		podRef, ifName string
	}
	leaks, owners := map[owner][]*Item{}, []owner(nil)
	for _, it := range items {
		if it.Allocation == nil || it.Reason != PodPending {
			continue
		}
		if e := it.Evidence(); e.Ownership != NotItsPod && e.hasEndedSandbox() {
			o := owner{it.Pool, it.PodRef(), it.IfName()}
			if leaks[o] == nil {
				owners = append(owners, o)
			}
			leaks[o] = append(leaks[o], it)
		}
	}
	for _, o := range owners {
		var ips, ids []string
		for _, it := range leaks[o] {
			ips, ids = append(ips, it.Text()), append(ids, it.ContainerID())
		}
		if len(ids) < 2 {
			continue
		}
		found = append(found, Finding{Kind: PendingLeak, IP: strings.Join(ips, ","), Pool: o.pool.Ref(),
			Pods: []string{o.podRef}, ContainerIDs: ids, Node: leaks[o][0].Node(), Message: fmt.Sprintf("%s is Pending and has "+
				"%d allocations in pool %s whose sandboxes have ended; they are kept because its next sandbox may get one of them",
				o.podRef, len(ids), o.pool.Ref())})
	}
	return found
}
