package judge

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// MinAbsenceWhilePending is how long a sandbox must have been absent before that counts while its pod is Pending, whatever
// --confirm-after says: as long as a report is fresh. Before that its agent may have looked last when the ADD had not yet
// begun.
const MinAbsenceWhilePending = time.Minute

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

// Evidence is all that the verdict on one allocation or reservation rests on. It is complete before the first row of the
// table is asked.
type Evidence struct {
	Problem ippool.Problem
	Detail  string // what the Problem is

	Pod       *podstate.Pod  // nil: no pod by that name
	Phase     podstate.Phase // of that pod
	Ownership Ownership
	Overdue   bool

	nodeSet
	SandboxUID  string
	ContainerID string // of the sandbox, where it was found by address

	OnPod                  bool // the address is on the pod
	StatusTrusted          bool // the operator trusts network-status annotations
	Detached               bool // neither the pod nor its running sandbox has the interface any more
	HasContradictingReport bool // a stale report has the sandbox as one that may be running, and was renewed after the containers' end
	Recent                 bool // a reservation younger than an ADD may take
	Deleting               bool // a reservation that is being deleted
	LongAlone              bool // a reservation that has had no entry, and nobody who carries its address, for a day
	Unproven               bool // what would be proven is not: something else could speak against it
	AgentMayNotKnow        bool // nor yet: the node's agent may not know of the sandbox of the pod by that name
	EndedElsewhere         bool // another node reports that the sandbox has ended
	Claimant               string
	ClaimantNode           string // of the report that lists the claimant; "" for a pod
	ClaimUnread            bool   // no cache entry lists the claimant's addresses
	claimedOn              string // the node of a claimant that is a pod
}

// gather fills in the evidence on an item.
func (x *Index) gather(it *Item) {
	e := it.evidence
	e.StatusTrusted = x.policy.TrustNetworkStatus
	if e.Pod = x.owner(it.Owner()); e.Pod != nil {
		e.Phase, e.Overdue, e.OnPod = e.Pod.Phase, e.Pod.IsOverdue(x.now), x.isOnPod(it)
		if e.Pod.Contradiction != "" {
			e.Problem, e.Detail = ippool.Malformed, e.Pod.Contradiction
		}
	}
	x.findSandbox(it)
	switch {
	case e.Pod == nil || e.SandboxUID == "":
	case e.Pod.HasUID(e.SandboxUID):
		e.Ownership = ItsPod
	default:
		e.Ownership = NotItsPod
	}
	e.Detached = x.isDetached(it)
	e.HasContradictingReport = x.hasContradictingReport(it)
	if e.Phase == podstate.Pending && e.Ownership == NotItsPod {
		since := x.past.Of(it.ID()).StaleSince
		e.AgentMayNotKnow = since.IsZero() || x.now.Sub(since) < MinAbsenceWhilePending
	}
	x.findClaims(it)
}

// isOnPod reports whether the address is on the pod: by its network-status, the default network's entry too, or its
// podIPs. With agents, an interface does not count when its definition maps to another pool that holds an entry of its own
// for it. That the definition maps elsewhere is no proof: it may have been edited.
func (x *Index) isOnPod(it *Item) bool {
	pod := it.evidence.Pod
	return slices.ContainsFunc(pod.IPs, it.mayBeAbout) || slices.ContainsFunc(pod.Interfaces, func(i podstate.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(ip netip.Addr) bool { return it.mayBeAbout(ip) && !x.isRecordedElsewhere(it, &i, ip) })
	})
}

func (x *Index) isRecordedElsewhere(it *Item, i *podstate.Interface, ip netip.Addr) bool {
	nad := x.nads[i.Network]
	if nad == nil || !x.inUse { // without agents nothing reports which of the two is the interface's
		return false
	}
	if it.in != nil && it.in.isMapped(nad) || it.in == nil && slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Name == it.reading.network }) {
		return false
	}
	return slices.ContainsFunc(x.entriesFor(ip), func(e entry) bool {
		return e.pool != it.in && e.PodRef == it.PodRef() && e.IfName == i.Name && e.pool.isMapped(nad)
	})
}

// isDetached reports whether the interface of an entry is gone from a sandbox that runs: the pod's readable
// network-status has no interface by that name, and neither has the complete list of the sandbox's addresses, as the
// agent of the pod's own node reports it. A hot-unplug whose DEL was lost leaves such an entry.
func (x *Index) isDetached(it *Item) bool {
	e := it.evidence
	if it.IfName() == "" || it.Allocation == nil || e.Sandbox != Ready || e.OnPod || e.Phase != podstate.Live || e.Pod.Status != podstate.StatusReadable {
		return false
	}
	// A plugin that reports neither interface nor addresses leaves a status without a name, or none.
	reported := 0
	for _, i := range e.Pod.Interfaces {
		if i.Name == it.IfName() || i.Name == "" {
			return false
		}
		if !i.Default {
			reported++
		}
	}
	mayHave := func(a v1alpha1.Address) bool {
		ip, readable := podstate.ParseAddress(a)
		return !readable || a.IfName == it.IfName() || it.mayBeAbout(ip)
	}
	return reported >= e.Pod.RequestedCount && !slices.ContainsFunc(it.mentions, func(g mention) bool {
		if g.kind == ofGone {
			return false
		}
		isComplete := g.kind == ofSandbox && g.report.IsFresh(x.now) && g.report.Name == e.Pod.Node && len(g.Addresses) > 0 && !g.AddressesUnread
		return !isComplete || slices.ContainsFunc(g.Addresses, mayHave)
	})
}

// hasContradictingReport reports whether a last report that has the ID speaks against a pod that kubelet says it has
// stopped: it was renewed, by the API server's clock, when the containers had ended.
func (x *Index) hasContradictingReport(it *Item) bool {
	return it.evidence.Pod != nil && slices.ContainsFunc(it.mentions, func(g mention) bool {
		renewed := g.report.LeaseRenewedAt
		return !g.report.IsFresh(x.now) && x.holds(&g) && (renewed.IsZero() || !renewed.Before(it.evidence.Pod.LastFinishedAt))
	})
}

// endedSandbox reports whether the sandbox of an entry is known not to run.
func (e *Evidence) endedSandbox() bool {
	return e.Problem == "" && slices.Contains([]Sandbox{Absent, Gone, Stopped, NodeDead}, e.Sandbox)
}

// node is the one node that the evidence is about, "" where there are several.
func (e *Evidence) node() string {
	switch {
	case e == nil:
		return ""
	case len(e.Nodes) == 1:
		return e.Nodes[0]
	case e.Phase != podstate.None && e.Pod != nil && e.Ownership != NotItsPod:
		return e.Pod.Node
	}
	return ""
}
