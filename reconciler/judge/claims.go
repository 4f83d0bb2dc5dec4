package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// rival is another that carries an item's address in the same network, or may carry it. The zero value is nobody.
type rival struct {
	name           string // "" for nobody
	reportNode     string // of the report that lists a sandbox; "" for a pod
	podNode        string // of a pod
	isUnread       bool   // its addresses are unknown
	isGuest        bool   // a VirtualMachineInstance, by its status
	isGuestUnknown bool   // a pod whose machine may have the address in its guest
	unknown        string // what is unknown of it
	sandbox        *facts.UnreadSandbox
	pod            *facts.UnreadPod
	// obsolete: an obsolete report lists another rival, which does not count. The evidence then rests on a missing node.
	obsolete bool
}

// rivalOf is who else carries the address in the same network, or else may carry it.
func (x *judging) rivalOf(it *Item, e *Evidence) rival {
	if x.isOnSuccessor(e) {
		return rival{name: "pod " + e.Pod.String(), podNode: e.Pod.Node}
	}
	r := x.carrierBeside(it)
	obsolete := r.obsolete
	if r.name == "" {
		r = x.guestBeside(it)
	}
	if r.name == "" {
		r = x.unreadPodBeside(it, true)
	}
	if r.name == "" {
		r = x.unreadSandboxBeside(it, e)
		obsolete = obsolete || r.obsolete
	}
	if r.name == "" {
		r = x.unreadPodBeside(it, false)
	}
	r.obsolete = obsolete
	return r
}

// isOnSuccessor reports whether a pod by the owner's name carries the address and may not have it by this sandbox. A
// Pending pod may have it by a later sandbox whose ID whereabouts did not write.
func (x *judging) isOnSuccessor(e *Evidence) bool {
	isItsOwn := e.Ownership == ItsPod && slices.Contains(e.Nodes, e.Pod.Node)
	switch {
	case !e.OnPod || e.Pod.Node == "" || !x.HasAgents():
		return false
	case isItsOwn && !(e.Phase == podstate.Pending && e.Sandbox == Absent):
		return false
	case e.Phase == podstate.Terminating:
		return !x.IsDeadOrMissing(e.Pod.Node) && !e.UnreachableTimedOut
	}
	return e.Phase == podstate.Pending
}

// carrierBeside is another pod that is not finished and carries the address in the same network, or another sandbox or
// attachment that may hold it, on a node that is not proven dead. An unknown network counts as the same.
func (x *judging) carrierBeside(it *Item) (r rival) {
	owner, addr := it.Owner(), it.Address()
	for _, c := range x.PodsAt(addr) {
		isOwn := owner.UID == "" && c.Pod.Namespace == owner.Namespace && c.Pod.Name == owner.Name
		if !isOwn && it.mayBeOn(c.NAD) && !x.isApart(it, x.IsolatedOfPod(addr, c)) {
			return rival{name: "pod " + c.Pod.String(), podNode: c.Pod.Node}
		}
	}
	for _, b := range x.SandboxesAt(addr) {
		isOwn := it.ContainerID() != "" && b.ID == it.ContainerID()
		switch {
		case isOwn || !it.isOfNetwork(b.NetworkName) || !x.MayHoldAddress(&b.Mention) ||
			x.isApart(it, x.IsolatedOfSandbox(addr, &b)):
		case x.IsObsolete(b.Report):
			r.obsolete = true
		default:
			r.name, r.reportNode = "sandbox "+b.ID+" on node "+b.Report.Name, b.Report.Name
			return r
		}
	}
	return r
}

// sandboxMayCarry reports whether a sandbox whose addresses are unknown may carry an item's address.
func sandboxMayCarry(u *facts.UnreadSandbox, it *Item) bool {
	hasAddress := func(n facts.NetworkRange) bool {
		return it.isOfNetwork(n.Network) && (!n.Prefix.IsValid() || n.Prefix.Contains(it.Address()))
	}
	return u.IsAny || slices.ContainsFunc(u.NADs, it.mayBeOn) || slices.ContainsFunc(u.Ranges, hasAddress)
}

// unreadSandboxBeside is a sandbox whose addresses are unknown and may include the item's.
func (x *judging) unreadSandboxBeside(it *Item, e *Evidence) (r rival) {
	isRival := func(g *facts.Mention) bool {
		switch {
		case it.Allocation != nil && g.ID == it.Allocation.ContainerID:
			return false
		case x.IsObsolete(g.Report):
			r.obsolete = true
			return false
		}
		r.name, r.reportNode = "sandbox "+g.ID+" of "+g.Pod()+" on node "+g.Report.Name, g.Report.Name
		r.isUnread, r.unknown = true, "its node's report lacks addresses of it"
		return true
	}
	for i := range x.UnreadSandboxes() {
		if u := &x.UnreadSandboxes()[i]; sandboxMayCarry(u, it) && isRival(&u.Mention) {
			r.sandbox = u
			return r
		}
	}
	if !e.OnPod {
		return r
	}
	// The owner's pod carries the address, so another sandbox of the pod may.
	if on := x.Report(e.Pod.Node); on != nil {
		for g := range on.Unread() {
			if x.PodOf(g) == e.Pod && x.MayHoldAddress(g) && isRival(g) {
				return r
			}
		}
	}
	return r
}

// unreadPodBeside is a pod whose addresses, or with IsGuest those of its guest, are unknown and may include the item's.
func (x *judging) unreadPodBeside(it *Item, isGuest bool) rival {
	for i := range x.UnreadPods() {
		if u := &x.UnreadPods()[i]; u.IsGuest == isGuest && podMayCarry(u, it) {
			return rival{name: "pod " + u.Pod.String(), podNode: u.Pod.Node, isUnread: !isGuest, isGuestUnknown: isGuest,
				unknown: u.Why, pod: u}
		}
	}
	return rival{}
}

// podMayCarry reports whether a pod whose addresses are unknown may carry the item's address.
func podMayCarry(u *facts.UnreadPod, it *Item) bool {
	owner := it.Owner()
	isOwn := owner.UID == "" && u.Pod.Namespace == owner.Namespace && u.Pod.Name == owner.Name
	if u.IsAny {
		return true
	}
	if isOwn || u.IsGuest && u.Pod.Namespace != owner.Namespace {
		return false
	}
	return u.NAD == nil || slices.ContainsFunc(u.NAD.Networks, func(n ippool.Network) bool {
		return it.isOfNetwork(n.Name) && slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool {
			return r.Contains(it.Address())
		})
	})
}

// isApart reports whether a carrier with the address from these isolated pools cannot have it from the item's pool.
func (x *judging) isApart(it *Item, from []*facts.Pool) bool {
	return len(from) > 0 && x.IsIsolated(it.pool) && !slices.Contains(from, it.pool)
}
