package judge

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Ownership reports whether the pod by the allocation's name is the sandbox's pod.
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

	Pod       *podstate.Pod  // nil: no pod by that name
	Phase     podstate.Phase // of that pod
	Ownership Ownership
	Overdue   bool

	Sandbox       Sandbox
	SandboxUID    string
	ContainerID   string   // of the sandbox, where it was found by address
	Nodes         []string // that could run the sandbox
	WithoutReport []string // those of them without a fresh report
	gone          []string // those of them that are dead or missing

	OnPod                  bool // the address is on the pod
	StatusTrusted          bool // the operator trusts network-status annotations
	Detached               bool // neither the pod nor its running sandbox has the interface any more
	Unreachable            bool // every node without a fresh report, or without agents the node in question, is not Ready
	UnreachableTimedOut    bool // and has been so for longer than the operator allows for
	StaleReportContradicts bool // a stale report has the sandbox as one that may be running, and was renewed after the containers' end
	Recent                 bool // a reservation younger than an ADD may take
	Deleting               bool // a reservation that is being deleted
	LongAlone              bool // a reservation that has had no entry, and nobody who carries its address, for a day
	MissingNode            bool // it rests on a Node object being gone
	Unproven               bool // what would be proven is not: something else could speak against it
	AgentMayNotKnow        bool // nor yet: the node's agent may not know of the sandbox of the pod by that name
	EndedElsewhere         bool // another node tells that the sandbox has ended
	Claimant               string
	ClaimantNode           string // of the report that tells of the claimant; "" for a pod
	ClaimUnread            bool   // no cache entry tells the claimant's addresses
	claimedOn              string // the node of a claimant that is a pod
}

// gather is the evidence on a candidate, with who else claims the address.
func (x *Index) gather(s *candidate) Evidence {
	e := x.gatherOwn(s)
	x.addClaims(s, &e)
	return e
}

// gatherOwn is the evidence on a candidate but for claims.
func (x *Index) gatherOwn(s *candidate) Evidence {
	e := Evidence{StatusTrusted: x.policy.TrustNetworkStatus}
	if s.pod != nil {
		e.Pod, e.OnPod = s.pod, x.onPod(s)
		e.Phase = s.pod.Phase
		if s.pod.Disputed != "" {
			e.Problem, e.Detail = ippool.Malformed, s.pod.Disputed
		}
		e.Overdue = s.pod.Overdue(x.now)
	}
	x.sandbox(s, &e)
	if s.pod != nil {
		switch {
		case e.SandboxUID == "":
		case s.pod.Has(e.SandboxUID):
			e.Ownership = ItsPod
		default:
			e.Ownership = NotItsPod
		}
	}
	e.Detached = x.detached(s, &e)
	e.StaleReportContradicts = x.staleReportContradicts(s)
	e.AgentMayNotKnow = e.Phase == podstate.Pending && e.Ownership == NotItsPod && !x.staleLongEnough(s)
	return e
}

// staleLongEnough reports whether the candidate has been Stale for so long that the agent of the
// node knows of a sandbox that the pod by its name may have by now.
func (x *Index) staleLongEnough(s *candidate) bool {
	since := x.seen(s).StaleSince
	return !since.IsZero() && x.now.Sub(since) >= HeardSince
}

// onPod reports whether the address is on the pod: by its network-status, the
// default network's entry too, or its podIPs. With agents, an interface does not
// count when its definition maps to another pool that holds an entry of its own for
// it; that the definition maps elsewhere is no proof, it may have been edited.
func (x *Index) onPod(s *candidate) bool {
	for _, ip := range s.pod.IPs {
		if s.mayBeAbout(ip) {
			return true
		}
	}
	for i := range s.pod.Interfaces {
		iface := &s.pod.Interfaces[i]
		for _, ip := range iface.Addresses {
			if s.mayBeAbout(ip) && !x.recordedElsewhere(s, iface, ip) {
				return true
			}
		}
	}
	return false
}

// detached reports whether the interface of an entry is gone from a sandbox that runs: the pod's readable
// network-status has no interface by that name, and neither has the complete list of the sandbox's addresses,
// as the agent of the pod's own node reports it. A hot-unplug whose DEL was lost leaves such an entry.
func (x *Index) detached(s *candidate, e *Evidence) bool {
	if s.alloc == nil || s.alloc.IfName == "" || e.Sandbox != Ready || e.OnPod || e.Phase != podstate.Live || s.pod.Status != podstate.StatusReadable {
		return false
	}
	// A plugin that reports neither interface nor addresses leaves a status without a name, or none.
	told := 0
	for _, i := range s.pod.Interfaces {
		if i.Name == s.alloc.IfName || i.Name == "" {
			return false
		}
		if !i.Default {
			told++
		}
	}
	if told < s.pod.Selects {
		return false
	}
	lacks := func(a v1alpha1.Address) bool {
		ip, readable := podstate.ParseAddress(a)
		return readable && a.IfName != s.alloc.IfName && !s.mayBeAbout(ip)
	}
	return !slices.ContainsFunc(s.reported, func(g reportEntry) bool {
		listed := g.sandbox != nil && x.isFresh(g.report) && g.report.Name == s.pod.Node
		complete := listed && len(g.sandbox.Addresses) > 0 && !g.sandbox.AddressesUnread
		return g.gone == nil && !complete || complete && slices.ContainsFunc(g.sandbox.Addresses, func(a v1alpha1.Address) bool { return !lacks(a) })
	})
}

// mayBeAbout reports whether the candidate may be about this address.
func (s *candidate) mayBeAbout(ip netip.Addr) bool {
	switch {
	case s.alloc == nil:
		return ip == s.address
	case s.pool.keyed == nil:
		return ip == s.alloc.Address
	}
	return s.pool.Range.HasKey(ip, s.alloc.Offset)
}

func (x *Index) recordedElsewhere(s *candidate, i *podstate.Interface, ip netip.Addr) bool {
	nad := x.nads[i.Network]
	if nad == nil || s.mapped(nad) || !x.inUse { // without agents nothing tells which of the two is the interface's
		return false
	}
	return slices.ContainsFunc(x.entriesFor(nil, ip), func(e entry) bool {
		return e.pool != s.pool && e.PodRef == s.podRef() && e.IfName == i.Name && e.pool.mapped(nad)
	})
}

// mapped reports whether a definition is of the candidate's pool, or for a
// reservation of its network.
func (s *candidate) mapped(nad *ippool.NAD) bool {
	if s.pool != nil {
		return s.pool.mapped(nad)
	}
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Name == s.network })
}

// reachability tells whether nodes are not known about because they all are not
// Ready, and whether they have been so for longer than the operator allows for.
func (x *Index) reachability(nodes []string) (unreachable, givenUp bool) {
	givenUp = len(nodes) > 0 && x.policy.UnreachableNodeTimeout > 0
	for _, n := range nodes {
		if !x.notReady(n) {
			return false, false
		}
		since := x.o.Nodes[n].NotReadySince
		if since.IsZero() || x.now.Sub(since) < x.policy.UnreachableNodeTimeout {
			givenUp = false
		}
	}
	return len(nodes) > 0, givenUp
}

// staleReportContradicts reports whether a last report that has the id speaks against a pod that
// kubelet says it has stopped: it was renewed, by the API server's clock, when the
// containers had ended.
func (x *Index) staleReportContradicts(s *candidate) bool {
	if s.pod == nil {
		return false
	}
	return slices.ContainsFunc(s.reported, func(g reportEntry) bool {
		if x.isFresh(g.report) || g.gone != nil || x.endedWithNode(g.report) {
			return false
		}
		renewed := g.report.LeaseRenewed
		return x.mayRun(&g) && (renewed.IsZero() || !renewed.Before(s.pod.LastFinished))
	})
}

// HeardSince is how long a sandbox must have been absent before that counts while its
// pod is Pending, whatever --confirm-after says: as long as a report is fresh. Before
// that its agent may have looked last when the ADD had not yet begun.
const HeardSince = time.Minute
