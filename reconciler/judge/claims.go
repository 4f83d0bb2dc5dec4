package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
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
	sandbox        *unreadSandbox
	pod            *unreadPod
	// obsolete: an obsolete report lists another rival, which does not count. The evidence then rests on a missing node.
	obsolete bool
}

// rivalOf is who else carries the address in the same network, or else may carry it.
func (x *Index) rivalOf(it *Item, e *Evidence) rival {
	if x.isOnSuccessor(e) {
		return rival{name: "pod " + e.Pod.String(), podNode: e.Pod.Node}
	}
	r := x.carrierBeside(it)
	if r.name != "" {
		return r
	}
	for _, next := range []func() rival{
		func() rival { return x.guestBeside(it) },
		func() rival { return x.unreadPodBeside(it, true) },
		func() rival { return x.unreadSandboxBeside(it, e) },
		func() rival { return x.unreadPodBeside(it, false) },
	} {
		n := next()
		n.obsolete = n.obsolete || r.obsolete
		if r = n; r.name != "" {
			return r
		}
	}
	return r
}

// isOnSuccessor reports whether a pod by the owner's name carries the address and may not have it by this sandbox. A
// Pending pod may have it by a later sandbox whose ID whereabouts did not write.
func (x *Index) isOnSuccessor(e *Evidence) bool {
	isItsOwn := e.Ownership == ItsPod && slices.Contains(e.Nodes, e.Pod.Node)
	switch {
	case !e.OnPod || e.Pod.Node == "" || !x.hasAgents:
		return false
	case isItsOwn && !(e.Phase == podstate.Pending && e.Sandbox == Absent):
		return false
	case e.Phase == podstate.Terminating:
		return !x.isGone(e.Pod.Node) && !e.UnreachableTimedOut
	}
	return e.Phase == podstate.Pending
}

// carrierBeside is another pod that is not finished and carries the address in the same network, or another sandbox or
// attachment that may hold it, on a node that is not proven dead. An unknown network counts as the same.
func (x *Index) carrierBeside(it *Item) (r rival) {
	owner, addr := it.Owner(), it.Address()
	for _, c := range x.podsAt(addr) {
		isOwn := owner.UID == "" && c.pod.Namespace == owner.Namespace && c.pod.Name == owner.Name
		if !isOwn && it.mayBeOn(c.nad) && !x.isApart(it, x.isolatedOfPod(addr, c)) {
			return rival{name: "pod " + c.pod.String(), podNode: c.pod.Node}
		}
	}
	for _, b := range x.sandboxesByAddress[addr] {
		isOwn := it.ContainerID() != "" && b.ID == it.ContainerID()
		switch {
		case isOwn || !it.isOfNetwork(b.NetworkName) || !x.mayHoldAddress(&b.mention) ||
			x.isApart(it, x.isolatedOfSandbox(addr, &b)):
		case x.isObsolete(b.report):
			r.obsolete = true
		default:
			r.name, r.reportNode = "sandbox "+b.ID+" on node "+b.report.Name, b.report.Name
			return r
		}
	}
	return r
}

// unreadSandbox is a sandbox without a CNI cache file that lists all of its addresses. It may carry any address of its
// networks. Its CNI caches name them, or else its pod, which users may edit. If neither does, it may carry any address.
type unreadSandbox struct {
	mention
	any    bool
	why    string // it may carry any address
	nads   []*ippool.NAD
	ranges []networkRange
}

// networkRange is a range of a network. The zero prefix cannot be read, and may have any address.
type networkRange struct {
	network string
	prefix  netip.Prefix
}

// maxRanges is how many ranges of a report's unread sandboxes are used. In a report with more, they may carry any
// address. This bounds the cost of judging a hostile report.
const maxRanges = 256

// mayCarry reports whether the sandbox may carry an item's address.
func (u *unreadSandbox) mayCarry(it *Item) bool {
	return u.any || slices.ContainsFunc(u.nads, it.mayBeOn) || slices.ContainsFunc(u.ranges, func(n networkRange) bool {
		return it.isOfNetwork(n.network) && (!n.prefix.IsValid() || n.prefix.Contains(it.Address()))
	})
}

// unreadSandboxBeside is a sandbox whose addresses are unknown and may include the item's.
func (x *Index) unreadSandboxBeside(it *Item, e *Evidence) (r rival) {
	isRival := func(g *mention) bool {
		switch {
		case it.Allocation != nil && g.ID == it.Allocation.ContainerID:
			return false
		case x.isObsolete(g.report):
			r.obsolete = true
			return false
		}
		r.name, r.reportNode = "sandbox "+g.ID+" of "+g.pod()+" on node "+g.report.Name, g.report.Name
		r.isUnread, r.unknown = true, "no CNI cache file lists its addresses"
		return true
	}
	for i := range x.unreadSandboxes {
		if u := &x.unreadSandboxes[i]; u.mayCarry(it) && isRival(&u.mention) {
			r.sandbox = u
			return r
		}
	}
	if !e.OnPod {
		return r
	}
	// The owner's pod carries the address, so another sandbox of the pod may.
	if on := x.byNode[e.Pod.Node]; on != nil && on.hasUnread {
		for i := range on.Sandboxes {
			g := &mention{on, ofSandbox, &on.Sandboxes[i]}
			if g.AddressesUnread && x.podOf(g) == e.Pod && x.mayHoldAddress(g) && isRival(g) {
				return r
			}
		}
	}
	return r
}

// isRecordedFor reports whether one of an interface's addresses is allocated to the sandbox.
func (x *Index) isRecordedFor(id string, addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return slices.ContainsFunc(x.entriesFor(a), func(e entry) bool { return e.ContainerID == id })
	})
}

// findUnread finds the sandboxes whose addresses are unknown. Two for each network or range are enough, because at most
// one of two is the item's own.
func (x *Index) findUnread() (found []unreadSandbox) {
	type claim struct {
		expired bool
		of      any // a *NAD, a networkRange, or the report, so that each node has its finding
	}
	known := map[claim][]string{}
	for _, r := range x.reports {
		if !r.hasUnread {
			continue
		}
		expired, ranges := x.isObsolete(r), 0
		isNew := func(of any, id string) bool {
			c := claim{expired, of}
			if ids := known[c]; len(ids) == 2 || slices.Contains(ids, id) {
				return false
			}
			known[c] = append(known[c], id)
			return true
		}
		for i := range r.Sandboxes {
			u := unreadSandbox{mention: mention{r, ofSandbox, &r.Sandboxes[i]}}
			if !u.AddressesUnread || !x.mayHoldAddress(&u.mention) {
				continue
			}
			var networks []string
			switch pod := x.podOf(&u.mention); {
			case len(u.MayCarry) > 0: // no text of a user adds a network, or takes one away
				for _, n := range u.MayCarry {
					prefix, _ := netip.ParsePrefix(n.Range)
					if of := (networkRange{n.NetworkName, prefix}); ranges < maxRanges && isNew(of, u.ID) {
						u.ranges, ranges = append(u.ranges, of), ranges+1
					}
				}
				if u.any = ranges == maxRanges && isNew(r, u.ID); u.any {
					u.why = "the sandboxes of its node have too many networks"
				}
			case pod != nil && pod.Status == podstate.StatusReadable:
				inDoubt := x.past.DoubtsStatus(u.CreatedAt.Time)
				for _, iface := range pod.Interfaces {
					isKnown := len(iface.Addresses) > 0 && (!inDoubt || x.isRecordedFor(u.ID, iface.Addresses))
					if _, _, named := iface.NAD(); named && !isKnown {
						networks = append(networks, iface.Network)
					}
				}
			case pod != nil:
				for _, name := range pod.RequestedNetworks {
					networks = append(networks, name.String())
				}
			default:
				u.any, u.why = isNew(r, u.ID), "the API has no pod "+u.pod()
			}
			for _, name := range networks {
				switch nad := x.nads[name]; {
				case nad == nil && isNew(r, u.ID):
					u.any, u.why = true, "the definition "+name+", which its pod names, is missing or cannot be read"
				case nad != nil && isNew(nad, u.ID):
					u.nads = append(u.nads, nad)
				}
			}
			if u.any || len(u.nads)+len(u.ranges) > 0 {
				found = append(found, u)
			}
		}
	}
	return found
}
