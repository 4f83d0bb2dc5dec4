package reconciler

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// Ownership says whether the pod by the allocation's name is the sandbox's pod.
type Ownership int

const (
	// OwnerUnknown: no report gives the sandbox a UID, or there is no pod.
	OwnerUnknown Ownership = iota
	// ItsPod: the pod has the UID that the runtime ran the sandbox for.
	ItsPod
	// NotItsPod: the pod has another UID: a successor of the same name.
	NotItsPod
)

// Evidence is all that the verdict on one allocation or reservation rests on.
type Evidence struct {
	Problem ippool.Problem
	Detail  string // what the Problem is

	Owner   ippool.PodRef
	Pod     *podstate.Pod  // nil: no pod by that name
	Phase   podstate.Phase // of that pod
	Own     Ownership
	Overdue bool

	Sandbox     Sandbox
	SandboxUID  string
	ContainerID string   // of the sandbox, where it was found by address
	Nodes       []string // that could run the sandbox
	Unheard     []string // those of them without a fresh report

	OnPod         bool // the address is on the pod
	Unreachable   bool // every unheard node, or without agents the node in question, is not Ready
	UnreachableOK bool // and has been so for longer than the operator allows for
	StaleSaysRun  bool // the last, stale report has the sandbox READY, and is not older than the containers' end
	Recent        bool // a reservation younger than an ADD may take
	Claimant      string
	ClaimantNode  string // of the report that tells of the claimant; "" for a pod
}

// gather collects the evidence on a subject.
func (x *index) gather(s *subject, e *Evidence) {
	*e = Evidence{Owner: s.owner}
	if s.pod != nil {
		e.Pod, e.OnPod = s.pod, x.onPod(s)
		e.Phase = s.pod.Phase
		e.Overdue = s.pod.Overdue(x.now)
	}
	x.sandbox(s, e)
	if s.pod != nil {
		switch e.SandboxUID {
		case "":
		case s.pod.UID, s.pod.RuntimeUID:
			e.Own = ItsPod
		default:
			e.Own = NotItsPod
		}
	}
	e.StaleSaysRun = staleSaysRun(s)
}

// onPod reports whether the address is on the pod: by its network-status, the
// default network's entry too, or its podIPs. An interface does not count when
// its definition maps to another pool that holds an entry of its own for it;
// that the definition maps elsewhere is no proof, it may have been edited.
func (x *index) onPod(s *subject) bool {
	for _, ip := range s.pod.IPs {
		if s.standsFor(ip) {
			return true
		}
	}
	for i := range s.pod.Interfaces {
		iface := &s.pod.Interfaces[i]
		for _, ip := range iface.Addresses {
			if s.standsFor(ip) && !x.recordedElsewhere(s, iface, ip) {
				return true
			}
		}
	}
	return false
}

// standsFor reports whether the subject may be about this address.
func (s *subject) standsFor(ip netip.Addr) bool {
	switch {
	case s.alloc == nil:
		return ip == s.address
	case s.pool.keyed == nil:
		return ip == s.alloc.Address
	}
	return s.pool.Range.HasKey(ip, s.alloc.Offset)
}

func (x *index) recordedElsewhere(s *subject, i *podstate.Interface, ip netip.Addr) bool {
	nad := x.nads[i.Network]
	if nad == nil || s.mapped(nad) {
		return false
	}
	return slices.ContainsFunc(x.entriesFor(nil, ip), func(e entry) bool {
		return e.pool != s.pool && e.PodRef == s.podRef() && e.IfName == i.Name && e.pool.mapped(nad)
	})
}

// mapped reports whether a definition is of the subject's pool, or for a
// reservation of its network.
func (s *subject) mapped(nad *ippool.NAD) bool {
	if s.pool != nil {
		return s.pool.mapped(nad)
	}
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Name == s.network })
}

// reachability tells whether nodes are not known about because they all are not
// Ready, and whether they have been so for longer than the operator allows for.
func (x *index) reachability(nodes []string) (unreachable, givenUp bool) {
	givenUp = len(nodes) > 0 && x.policy.UnreachableNodeTimeout > 0
	for _, n := range nodes {
		if !x.notReady(n) {
			return false, false
		}
		since := x.o.Nodes[n].NotReadyFor
		if since.IsZero() || x.now.Sub(since) < x.policy.UnreachableNodeTimeout {
			givenUp = false
		}
	}
	return len(nodes) > 0, givenUp
}

// staleSaysRun reports whether the last report that has the id speaks against a
// pod that kubelet says it has stopped.
func staleSaysRun(s *subject) bool {
	if s.pod == nil {
		return false
	}
	for i := range s.sighted {
		g := &s.sighted[i]
		if !g.report.fresh && g.box != nil && g.box.State == v1alpha1.SandboxReady && !g.report.ObservedAt.Time.Before(s.pod.LastFinished) {
			return true
		}
	}
	return false
}

// claimant names somebody else who carries the address in the same network, ""
// if there is nobody: another pod that is not finished, or another sandbox or
// attachment whose network is not known to be closed, of a node that is not
// proven dead. A network that cannot be told counts as the same.
func (x *index) claimant(s *subject) (who, node string) {
	addresses, own := []netip.Addr{s.address}, ""
	same := func(network string) bool { return network == s.network }
	if s.alloc != nil {
		addresses, own, same = s.pool.mayBe(s.alloc), s.alloc.ContainerID, s.pool.of
	}
	for _, addr := range addresses {
		for _, c := range x.podsAt(addr) {
			if s.owner.UID == "" && c.pod.Namespace == s.owner.Namespace && c.pod.Name == s.owner.Name {
				continue
			}
			if c.nad == nil || slices.ContainsFunc(c.nad.Networks, func(n ippool.Network) bool { return same(n.Name) }) {
				return "pod " + c.pod.String(), ""
			}
		}
		for _, b := range x.boxesAt(addr) {
			if (own == "" || b.containerID() != own) && same(b.NetworkName) && x.holds(&b.sighting) {
				return "sandbox " + b.containerID() + " on node " + b.report.Name, b.report.Name
			}
		}
	}
	return "", ""
}

// holds reports whether a sandbox or attachment may hold its addresses.
func (x *index) holds(g *sighting) bool {
	if x.lost(g.report) {
		return false
	}
	if g.box != nil {
		return !podstate.Closed(g.box.NetworkClosed)
	}
	return g.report.Counts(g.att, x.now)
}
