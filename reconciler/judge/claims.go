package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// addClaims notes who else carries the address in the same network.
func (x *Index) addClaims(s *candidate, e *Evidence) {
	if x.onSuccessor(s, e) {
		e.Claimant, e.claimedOn = "pod "+s.pod.String(), s.pod.Node
		return
	}
	if e.Claimant, e.ClaimantNode = x.claimant(s, e); e.Claimant == "" {
		e.Claimant, e.ClaimantNode = x.unreadClaim(s, e)
		e.ClaimUnread = e.Claimant != ""
	}
}

// onSuccessor reports whether the address is on a pod by the owner's name that may be
// another than the sandbox's: what is known of the sandbox says nothing of that pod.
func (x *Index) onSuccessor(s *candidate, e *Evidence) bool {
	if !e.OnPod || s.pod.Node == "" || e.Phase != podstate.Pending && e.Phase != podstate.Terminating {
		return false
	}
	if e.Phase == podstate.Terminating && (x.isGone(s.pod.Node) || e.UnreachableTimedOut) {
		return false
	}
	return x.inUse && (e.Ownership != ItsPod || !slices.Contains(e.Nodes, s.pod.Node))
}

// claimant names somebody else who carries the address in the same network, ""
// if there is nobody: another pod that is not finished, or another sandbox or
// attachment whose network is not known to be closed, of a node that is not
// proven dead. A network that cannot be told counts as the same. What lapsed with
// a node that is gone is no claim; the evidence then says that it rests on that.
func (x *Index) claimant(s *candidate, e *Evidence) (who, node string) {
	own, same := "", func(network string) bool { return network == s.network }
	if s.alloc != nil {
		own, same = s.alloc.ContainerID, s.pool.isOfNetwork
	}
	for _, addr := range x.addressesOf(s) {
		for _, c := range x.podsAt(addr) {
			if s.owner.UID == "" && c.pod.Namespace == s.owner.Namespace && c.pod.Name == s.owner.Name {
				continue
			}
			if x.mayBeOf(s, c.nad) && !x.isApart(s, x.uncheckedOfPod(addr, c)) {
				e.claimedOn = c.pod.Node
				return "pod " + c.pod.String(), ""
			}
		}
		for _, b := range x.sandboxesByAddress[addr] {
			if own != "" && b.containerID() == own || !same(b.NetworkName) || !x.holds(&b.reportEntry) || x.isApart(s, x.uncheckedOfSandbox(addr, &b)) {
				continue
			}
			if x.expired(b.report) {
				e.MissingNode, e.Unproven = true, true
				continue
			}
			return "sandbox " + b.containerID() + " on node " + b.report.Name, b.report.Name
		}
	}
	return "", ""
}

// addresses are those that a candidate may be about.
func (x *Index) addressesOf(s *candidate) []netip.Addr {
	if s.alloc != nil {
		return x.possibleAddresses(s.pool, s.alloc)
	}
	return []netip.Addr{s.address}
}

// mayBeOf reports whether an interface of this definition, nil if it cannot be read,
// may be on the candidate's network.
func (x *Index) mayBeOf(s *candidate, nad *ippool.NAD) bool {
	return nad == nil || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		if s.alloc != nil {
			return s.pool.isOfNetwork(n.Name)
		}
		return n.Name == s.network
	})
}

// holds reports whether a sandbox or attachment may hold its addresses.
func (x *Index) holds(g *reportEntry) bool {
	if x.endedWithNode(g.report) {
		return false
	}
	return x.mayRun(g)
}

// unreadSandbox is a sandbox of which no cache entry tells all addresses, and which may
// carry others than those that its pod's status tells: any address of these networks, or
// where neither its CNI caches nor a pod name any, any at all.
type unreadSandbox struct {
	*report
	sandbox *v1alpha1.Sandbox
	any     bool
	on      []*ippool.NAD // nil: one that cannot be read
	ranges  []v1alpha1.Network
}

// mayCarry reports whether a candidate is about an address of a range.
func (x *Index) mayCarry(s *candidate, n v1alpha1.Network) bool {
	if s.alloc == nil && n.NetworkName != s.network || s.alloc != nil && !s.pool.isOfNetwork(n.NetworkName) {
		return false
	}
	p, err := netip.ParsePrefix(n.Range)
	return err != nil || slices.ContainsFunc(x.addressesOf(s), p.Contains)
}

// unreadClaim names a sandbox whose addresses are not known, and may be the candidate's.
func (x *Index) unreadClaim(s *candidate, e *Evidence) (who, node string) {
	claims := func(b *v1alpha1.Sandbox, r *report) bool {
		if s.alloc != nil && b.ID == s.alloc.ContainerID {
			return false
		}
		if x.expired(r) {
			e.MissingNode, e.Unproven = true, true
			return false
		}
		who, node = "sandbox "+b.ID+" of "+b.Namespace+"/"+b.Name+" on node "+r.Name, r.Name
		return true
	}
	for _, u := range x.allUnread() {
		on := func(nad *ippool.NAD) bool { return x.mayBeOf(s, nad) }
		if (u.any || slices.ContainsFunc(u.on, on) || slices.ContainsFunc(u.ranges, func(n v1alpha1.Network) bool { return x.mayCarry(s, n) })) && claims(u.sandbox, u.report) {
			return who, node
		}
	}
	// The address is on the owner's own pod, and so may be on another sandbox of its.
	r := (*report)(nil)
	if e.OnPod {
		r = x.byNode[s.pod.Node]
	}
	if r == nil || r.unread == 0 {
		return "", ""
	}
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		if b.AddressesUnread && s.pod.Has(b.UID) && x.podOf(b) == s.pod && x.holds(&reportEntry{report: r, sandbox: b}) && claims(b, r) {
			return who, node
		}
	}
	return "", ""
}

// allUnread finds them when they are asked for first.
func (x *Index) allUnread() []unreadSandbox {
	if x.unread == nil {
		x.unread = x.findUnread()
	}
	return x.unread
}

func (x *Index) findUnread() []unreadSandbox {
	found := []unreadSandbox{}
	type same struct {
		any     bool
		on      *ippool.NAD
		ofRange v1alpha1.Network
	}
	for _, r := range x.reports {
		if r.unread == 0 {
			continue
		}
		// A candidate is at most one of two sandboxes, so that of a report two of a network are
		// enough; there may be thousands.
		known := map[same][]string{}
		another := func(as same, id string) bool {
			if ids := known[as]; len(ids) == 2 || slices.Contains(ids, id) {
				return false
			}
			known[as] = append(known[as], id)
			return true
		}
		for i := range r.Sandboxes {
			b := &r.Sandboxes[i]
			if !b.AddressesUnread || !x.holds(&reportEntry{report: r, sandbox: b}) {
				continue
			}
			u := unreadSandbox{report: r, sandbox: b}
			pod := x.podOf(b)
			var on []string
			switch {
			case pod != nil && pod.Status == podstate.StatusReadable:
				for _, iface := range pod.Interfaces {
					if _, _, named := iface.NAD(); named && len(iface.Addresses) == 0 {
						on = append(on, iface.Network)
					}
				}
			case len(b.MayCarry) > 0:
				for _, n := range b.MayCarry {
					if another(same{ofRange: n}, b.ID) {
						u.ranges = append(u.ranges, n)
					}
				}
			case pod != nil:
				for _, name := range pod.Selected {
					on = append(on, name.String())
				}
			default:
				u.any = another(same{any: true}, b.ID)
			}
			for _, name := range on {
				if nad := x.nads[name]; another(same{on: nad}, b.ID) {
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

// podOf is the pod of a sandbox, nil if it is not known.
func (x *Index) podOf(b *v1alpha1.Sandbox) *podstate.Pod {
	if p := x.pod(b.Namespace, b.Name); p != nil && p.Has(b.UID) {
		return p
	}
	return nil
}
