package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// findClaims notes who else carries the address in the same network.
func (x *Index) findClaims(it *Item) {
	e := it.evidence
	if x.isOnSuccessor(e) {
		e.Claimant, e.claimedOn = "pod "+e.Pod.String(), e.Pod.Node
		return
	}
	if x.findClaimant(it); e.Claimant == "" {
		x.findUnreadClaim(it)
		e.ClaimUnread = e.Claimant != ""
	}
}

// isOnSuccessor reports whether the address is on a pod by the owner's name that may be another than the sandbox's: what
// is known of the sandbox says nothing of that pod.
func (x *Index) isOnSuccessor(e *Evidence) bool {
	switch {
	case !e.OnPod || e.Pod.Node == "" || !x.inUse || e.Ownership == ItsPod && slices.Contains(e.Nodes, e.Pod.Node):
		return false
	case e.Phase == podstate.Terminating:
		return !x.isGone(e.Pod.Node) && !e.UnreachableTimedOut
	}
	return e.Phase == podstate.Pending
}

// findClaimant finds somebody else who carries the address in the same network: another pod that is not finished, or
// another sandbox or attachment whose network is not known to be closed, of a node that is not proven dead. A network that
// is not known counts as the same. What expired with a node that is gone is no claim; the evidence then says that it rests
// on that.
func (x *Index) findClaimant(it *Item) {
	e, owner := it.evidence, it.Owner()
	for _, addr := range it.addresses() {
		for _, c := range x.podsAt(addr) {
			isOwn := owner.UID == "" && c.pod.Namespace == owner.Namespace && c.pod.Name == owner.Name
			if !isOwn && it.mayBeOn(c.nad) && !x.isApart(it, x.isolatedOfPod(addr, c)) {
				e.Claimant, e.claimedOn = "pod "+c.pod.String(), c.pod.Node
				return
			}
		}
		for _, b := range x.sandboxesByAddress[addr] {
			isOwn := it.ContainerID() != "" && b.ID == it.ContainerID()
			if isOwn || !it.isOfNetwork(b.NetworkName) || !x.holds(&b.mention) || x.isApart(it, x.isolatedOfSandbox(addr, &b)) || x.isExpiredClaim(&b.mention, e) {
				continue
			}
			e.Claimant, e.ClaimantNode = "sandbox "+b.ID+" on node "+b.report.Name, b.report.Name
			return
		}
	}
}

// isExpiredClaim reports whether what a sandbox claims expired with its node, and notes that the evidence rests on that.
func (x *Index) isExpiredClaim(g *mention, e *Evidence) bool {
	if !x.expired(g.report) {
		return false
	}
	e.MissingNode, e.Unproven = true, true
	return true
}

// unreadSandbox is a sandbox of which no cache entry lists all addresses, and which may carry others than those in its
// pod's status: any address of these networks, or where neither its CNI caches nor a pod name any, any at all.
type unreadSandbox struct {
	mention
	any    bool
	on     []*ippool.NAD // nil: one that cannot be read
	ranges []networkRange
}

// networkRange is a range of a network; the zero prefix is one that cannot be read, and may have any address.
type networkRange struct {
	network string
	prefix  netip.Prefix
}

// maxRanges is how many ranges the unread sandboxes of a report are taken at their word for. Those of a report that
// names more may carry any address: judging must not cost what a report can name times all entries.
const maxRanges = 256

// mayCarry reports whether the sandbox may carry an item's address.
func (u *unreadSandbox) mayCarry(it *Item) bool {
	return u.any || slices.ContainsFunc(u.on, it.mayBeOn) || slices.ContainsFunc(u.ranges, func(n networkRange) bool {
		return it.isOfNetwork(n.network) && (!n.prefix.IsValid() || slices.ContainsFunc(it.addresses(), n.prefix.Contains))
	})
}

// findUnreadClaim finds a sandbox whose addresses are not known, and may include the item's.
func (x *Index) findUnreadClaim(it *Item) {
	e := it.evidence
	isClaimant := func(g *mention) bool {
		if it.Allocation != nil && g.ID == it.Allocation.ContainerID || x.isExpiredClaim(g, e) {
			return false
		}
		e.Claimant, e.ClaimantNode = "sandbox "+g.ID+" of "+g.pod()+" on node "+g.report.Name, g.report.Name
		return true
	}
	for i := range x.unread {
		if u := &x.unread[i]; u.mayCarry(it) && isClaimant(&u.mention) {
			return
		}
	}
	if !e.OnPod {
		return
	}
	// The address is on the owner's own pod, and so may be on another sandbox of its.
	if r := x.byNode[e.Pod.Node]; r != nil && r.hasUnread {
		for i := range r.Sandboxes {
			g := &mention{r, ofSandbox, &r.Sandboxes[i]}
			if g.AddressesUnread && x.podOf(g) == e.Pod && x.holds(g) && isClaimant(g) {
				return
			}
		}
	}
}

// findUnread finds the sandboxes whose addresses are not known. An item is at most one of two sandboxes, so that two
// sandboxes for each network or range are enough; there may be thousands.
func (x *Index) findUnread() (found []unreadSandbox) {
	type claim struct {
		expired bool
		of      any // a *NAD, a networkRange, or for any address the report, so that each node has its finding
	}
	known := map[claim][]string{}
	for _, r := range x.reports {
		if !r.hasUnread {
			continue
		}
		expired, ranges := x.expired(r), 0
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
			if !u.AddressesUnread || !x.holds(&u.mention) {
				continue
			}
			var on []string
			switch pod := x.podOf(&u.mention); {
			case pod != nil && pod.Status == podstate.StatusReadable:
				for _, iface := range pod.Interfaces {
					if _, _, named := iface.NAD(); named && len(iface.Addresses) == 0 {
						on = append(on, iface.Network)
					}
				}
			case len(u.MayCarry) > 0:
				for _, n := range u.MayCarry {
					prefix, _ := netip.ParsePrefix(n.Range)
					if of := (networkRange{n.NetworkName, prefix}); ranges < maxRanges && isNew(of, u.ID) {
						u.ranges, ranges = append(u.ranges, of), ranges+1
					}
				}
				u.any = ranges == maxRanges && isNew(r, u.ID)
			case pod != nil:
				for _, name := range pod.RequestedNetworks {
					on = append(on, name.String())
				}
			default:
				u.any = isNew(r, u.ID)
			}
			for _, name := range on {
				if nad := x.nads[name]; isNew(nad, u.ID) {
					u.on = append(u.on, nad)
				}
			}
			if u.any || len(u.on)+len(u.ranges) > 0 {
				found = append(found, u)
			}
		}
	}
	return found
}
