package reconciler

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
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
func (w *world) gather(s *subject) *Evidence {
	s.pod = w.podOf(s.owner)
	if s.pod != nil {
		s.onPod = w.onPod(s)
	}
	box := w.sandbox(s)
	e := &Evidence{
		Owner: s.owner, Pod: s.pod, OnPod: s.onPod,
		Sandbox: box.state, SandboxUID: box.uid, ContainerID: box.id,
		Nodes: box.nodes, Unheard: box.unheard,
	}
	if s.pod != nil {
		e.Phase = s.pod.Phase
		e.Overdue = s.pod.Overdue(w.Now)
		switch {
		case box.uid == "":
		case box.uid == s.pod.UID || box.uid == s.pod.RuntimeUID:
			e.Own = ItsPod
		default:
			e.Own = NotItsPod
		}
	}
	w.reachability(e)
	e.StaleSaysRun = w.staleSaysRun(s)
	return e
}

// podOf is the pod by an owner's name. What a repair wrote for a phantom names
// a pod that is known to be none.
func (w *world) podOf(owner ippool.PodRef) *podstate.Pod {
	if owner.UID != "" {
		return nil
	}
	return w.Pods[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}]
}

// onPod says whether the address is on the pod: by its network-status, the
// default network's entry too, or its podIPs. An interface does not count when
// its definition maps to another pool that holds an entry of its own for it;
// that the definition maps elsewhere is no proof, it may have been edited.
func (w *world) onPod(s *subject) bool {
	if slices.ContainsFunc(s.pod.IPs, s.standsFor) {
		return true
	}
	for _, i := range s.pod.Interfaces {
		for _, ip := range i.Addresses {
			if s.standsFor(ip) && !w.recordedElsewhere(s, i, ip) {
				return true
			}
		}
	}
	return false
}

// standsFor says whether the subject may be about this address.
func (s *subject) standsFor(ip netip.Addr) bool {
	if s.alloc == nil {
		return ip == s.address
	}
	return s.pool.Range.HasKey(ip, s.alloc.Offset)
}

func (w *world) recordedElsewhere(s *subject, i podstate.Interface, ip netip.Addr) bool {
	nad := w.nad(i)
	if nad == nil || s.mapped(w, nad) {
		return false
	}
	return slices.ContainsFunc(w.entriesFor(ip), func(e entry) bool {
		return e.pool != s.pool && e.PodRef == s.id.PodRef && e.IfName == i.Name && w.maps(nad, e.pool)
	})
}

// mapped says whether a definition is of the subject's pool, or for a
// reservation of its network.
func (s *subject) mapped(w *world, nad *ippool.NAD) bool {
	if s.pool != nil {
		return w.maps(nad, s.pool)
	}
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Name == s.network })
}

// reachability says whether what is not known is so because nodes are not
// Ready, and for how long they all have been.
func (w *world) reachability(e *Evidence) {
	nodes := e.Unheard
	if e.Sandbox == NoSource {
		// Without agents one node that is not Ready is enough to hold what it
		// may run: its kubelet cannot say that the sandbox is gone.
		nodes = slices.DeleteFunc(slices.Clone(e.Nodes), func(n string) bool { return !w.notReady(n) })
	}
	e.Unreachable = len(nodes) > 0
	e.UnreachableOK = len(nodes) > 0 && w.policy.UnreachableNodeTimeout > 0
	for _, n := range nodes {
		if !w.notReady(n) {
			e.Unreachable, e.UnreachableOK = false, false
			continue
		}
		since := w.Nodes[n].NotReadyFor
		if since.IsZero() || w.Now.Sub(since) < w.policy.UnreachableNodeTimeout {
			e.UnreachableOK = false
		}
	}
}

// staleSaysRun says whether the last report that has the id speaks against a
// pod that kubelet says it has stopped.
func (w *world) staleSaysRun(s *subject) bool {
	if s.pod == nil {
		return false
	}
	for i := range s.sighted {
		g := &s.sighted[i]
		if !g.report.Fresh(w.Now) && g.box != nil && g.box.State == "Ready" && !g.report.ObservedAt.Time.Before(s.pod.LastFinished) {
			return true
		}
	}
	return false
}

// claimant names somebody else who carries the address in the same network, ""
// if there is nobody: another pod that is not finished, or another sandbox or
// attachment whose network is not known to be closed, of a node that is not
// proven dead. A network that cannot be told counts as the same.
func (w *world) claimant(s *subject) (who, node string) {
	addresses, own := []netip.Addr{s.address}, ""
	same := func(network string) bool { return network == s.network }
	if s.alloc != nil {
		addresses, own = w.addresses(s.pool, s.alloc), s.alloc.ContainerID
		same = func(network string) bool { return w.sameNetwork(s.pool, network) }
	}
	for _, addr := range addresses {
		for _, c := range w.pods[addr] {
			if s.owner.UID == "" && c.pod.Namespace == s.owner.Namespace && c.pod.Name == s.owner.Name {
				continue
			}
			if c.nad == nil || slices.ContainsFunc(c.nad.Networks, func(n ippool.Network) bool { return same(n.Name) }) {
				return "pod " + c.pod.String(), ""
			}
		}
		for i := range w.boxes[addr] {
			b := &w.boxes[addr][i]
			if (own == "" || b.containerID() != own) && same(b.NetworkName) && w.holds(&b.sighting) {
				return "sandbox " + b.containerID() + " on node " + b.report.Name, b.report.Name
			}
		}
	}
	return "", ""
}

// holds says whether a sandbox or attachment may hold its addresses.
func (w *world) holds(g *sighting) bool {
	if w.lost(g.report) {
		return false
	}
	if g.box != nil {
		return !podstate.Closed(g.box.NetworkClosed)
	}
	return g.report.Counts(g.att, w.Now)
}
