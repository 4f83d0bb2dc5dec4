package reconciler

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// addClaims notes who else carries the address in the same network.
func (x *index) addClaims(s *subject, e *Evidence) {
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
func (x *index) onSuccessor(s *subject, e *Evidence) bool {
	if !e.OnPod || s.pod.Node == "" || e.Phase != podstate.Pending && e.Phase != podstate.Terminating {
		return false
	}
	if e.Phase == podstate.Terminating && (x.over(s.pod.Node) || e.UnreachableOK) {
		return false
	}
	return x.inUse && (e.Own != ItsPod || !slices.Contains(e.Nodes, s.pod.Node))
}

// claimant names somebody else who carries the address in the same network, ""
// if there is nobody: another pod that is not finished, or another sandbox or
// attachment whose network is not known to be closed, of a node that is not
// proven dead. A network that cannot be told counts as the same. What lapsed with
// a node that is gone is no claim; the evidence then says that it rests on that.
func (x *index) claimant(s *subject, e *Evidence) (who, node string) {
	own, same := "", func(network string) bool { return network == s.network }
	if s.alloc != nil {
		own, same = s.alloc.ContainerID, s.pool.of
	}
	for _, addr := range s.addresses() {
		for _, c := range x.podsAt(addr) {
			if s.owner.UID == "" && c.pod.Namespace == s.owner.Namespace && c.pod.Name == s.owner.Name {
				continue
			}
			if x.mayBeOf(s, c.nad) {
				e.claimedOn = c.pod.Node
				return "pod " + c.pod.String(), ""
			}
		}
		for _, b := range x.boxesAt(addr) {
			if own != "" && b.containerID() == own || !same(b.NetworkName) || !x.holds(&b.sighting) {
				continue
			}
			if x.lapsed(b.report) {
				e.MissingNode, e.Unproven = true, true
				continue
			}
			return "sandbox " + b.containerID() + " on node " + b.report.Name, b.report.Name
		}
	}
	return "", ""
}

// addresses are those that a subject may be about.
func (s *subject) addresses() []netip.Addr {
	if s.alloc != nil {
		return s.pool.mayBe(s.alloc)
	}
	return []netip.Addr{s.address}
}

// mayBeOf reports whether an interface of this definition, nil if it cannot be read,
// may be on the subject's network.
func (x *index) mayBeOf(s *subject, nad *ippool.NAD) bool {
	return nad == nil || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		if s.alloc != nil {
			return s.pool.of(n.Name)
		}
		return n.Name == s.network
	})
}

// holds reports whether a sandbox or attachment may hold its addresses.
func (x *index) holds(g *sighting) bool {
	if x.lost(g.report) {
		return false
	}
	return x.mayRun(g)
}

// unreadClaim names a sandbox of which no cache entry tells the addresses, and which
// may carry the subject's: any address of its pod's networks, or of any network where
// those are not known. Where its pod's status tells them, those are the pod's claims.
func (x *index) unreadClaim(s *subject, e *Evidence) (who, node string) {
	for _, r := range x.reports {
		if r.unread == 0 {
			continue
		}
		for i := range r.sandboxes {
			b := &r.sandboxes[i]
			g := sighting{report: r, box: b}
			if !b.AddressesUnread || !x.holds(&g) || s.alloc != nil && b.ID == s.alloc.ContainerID || !x.mayCarry(b, s, e.OnPod) {
				continue
			}
			if !x.lapsed(r) {
				return "sandbox " + b.ID + " on node " + r.Name, r.Name
			}
			e.MissingNode, e.Unproven = true, true
		}
	}
	return "", ""
}

// mayCarry reports whether a sandbox whose addresses are not known may carry the
// subject's beside those that its pod's status tells, or where the pod is the owner's
// those, too.
func (x *index) mayCarry(b *v1alpha1.Sandbox, s *subject, onPod bool) bool {
	pod := x.podOf(b)
	if pod == nil || pod.Status != podstate.StatusReadable || onPod && pod == s.pod {
		return true
	}
	return slices.ContainsFunc(pod.Interfaces, func(i podstate.Interface) bool {
		_, _, named := i.NAD()
		return named && len(i.Addresses) == 0 && x.mayBeOf(s, x.nads[i.Network])
	})
}

// podOf is the pod of a sandbox, nil if it is not known.
func (x *index) podOf(b *v1alpha1.Sandbox) *podstate.Pod {
	if p := x.pod(b.Namespace, b.Name); p != nil && b.UID != "" && (b.UID == p.UID || b.UID == p.RuntimeUID) {
		return p
	}
	return nil
}
