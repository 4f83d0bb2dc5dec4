package judge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Ownership is whether the pod by the allocation's name is the sandbox's pod.
type Ownership int8

const (
	OwnerUnknown Ownership = iota // no report gives the sandbox a UID, or the pod does not exist
	ItsPod                        // the pod has the UID in the report
	NotItsPod                     // the pod has another UID: it is a successor of the same name
)

func (o Ownership) String() string { return [...]string{"Unknown", "ItsPod", "NotItsPod"}[o] }

// Evidence is all that the verdict on an item rests on. It is complete before the first row of the table is matched,
// and nothing changes it any more. A Testimony keeps the fields that have a name in JSON: all that judging reads.
type Evidence struct {
	Problem ippool.Problem `json:"problem,omitempty"`
	Detail  string         `json:"-"` // what the Problem is, or the IPAMClaim
	Pod     *podstate.Pod  `json:"-"` // by the owner's name; nil if it does not exist
	nodeSet
	SandboxUID  string `json:"-"`
	ContainerID string `json:"-"` // of the sandbox
	// Rival, the claimant in JSON, is who else carries the address, or may carry it; "" for nobody.
	Rival string `json:"claimant,omitempty"`
	rival *rival // nil for nobody
	// IPAMClaim is the state of the IPAMClaim that is recorded: Exists, Missing or NotRead; "" for none.
	IPAMClaim IPAMClaimState `json:"ipamClaim,omitempty"`
	Override  Reason         `json:"override,omitempty"` // for which a person asserts that the item is stale; "" for none

	Phase         podstate.Phase `json:"-"` // None also for a pod that was never bound to a node
	Ownership     Ownership      `json:"-"`
	Overdue       bool           `json:"overdue,omitempty"`       // the deletion of the pod
	OnPod         bool           `json:"onPod,omitempty"`         // the pod carries the address
	StatusTrusted bool           `json:"statusTrusted,omitempty"` // the operator trusts network-status annotations
	// Detached: neither the pod nor its running sandbox has the interface.
	Detached bool `json:"detached,omitempty"`
	// HasContradictingReport: an expired report, renewed after the containers ended, has the sandbox running.
	HasContradictingReport bool `json:"contradictingReport,omitempty"`
	Recent                 bool `json:"recent,omitempty"`   // a reservation younger than 2 minutes
	Deleting               bool `json:"deleting,omitempty"` // a reservation that is being deleted
	// NetworkComplete: a fresh report of the Pending pod's node lists a READY sandbox of the pod with all of its
	// addresses, and no sandbox of the pod may carry the item's address.
	NetworkComplete bool `json:"networkComplete,omitempty"`
	// Superseded: a younger sandbox of the Pending pod has an allocation of the same interface in the pool, and no
	// sandbox of the pod may carry the item's address.
	Superseded bool `json:"superseded,omitempty"`
	// LongAlone: a reservation that has had no allocation and no known carrier for minTimeAlone.
	LongAlone bool `json:"longAlone,omitempty"`
	// Unproven: a proven row must be confirmed, because not every node that could run the sandbox agrees.
	Unproven bool `json:"unproven,omitempty"`
	// AgentMayNotKnow: a proven row must be confirmed, because the agent may not know the Pending pod's sandbox yet.
	AgentMayNotKnow bool `json:"agentMayNotKnow,omitempty"`
	EndedElsewhere  bool `json:"endedElsewhere,omitempty"` // another node reports that the sandbox has ended
	// OnlyOthersMissing: no node that is known to have had the pod or the address lacks its Node object.
	OnlyOthersMissing bool `json:"-"`
	RivalUnread       bool `json:"claimUnread,omitempty"`  // the claimant's addresses are unknown
	RivalIsGuest      bool `json:"claimByGuest,omitempty"` // the claimant is a VirtualMachineInstance, by its status
	GuestUnknown      bool `json:"guestUnknown,omitempty"` // the claimant is a machine whose guest is unknown
}

// evidenceOn is the evidence on an item with these mentions: those of its container ID, or for a reservation those of
// its address.
func (x *judging) evidenceOn(it *Item, mentions []facts.Mention) Evidence {
	e := Evidence{StatusTrusted: x.Policy().TrustNetworkStatus}
	if len(x.overrides) > 0 {
		e.Override = x.overrides[it.ID()]
	}
	if e.Pod = x.Owner(it.Owner()); e.Pod != nil {
		e.Phase, e.Overdue, e.OnPod = e.Pod.Phase, e.Pod.IsOverdue(x.Now()), x.isOnPod(it, e.Pod)
		if e.Pod.NeverBound && !x.hasRun(e.Pod, mentions) {
			e.Phase = podstate.None // no ADD has run for this pod: the item is of one before it
		}
		if e.Pod.Contradiction != "" {
			e.Problem, e.Detail = ippool.Malformed, e.Pod.Contradiction
		}
	}
	s := x.sandboxOf(it, boundPod{e.Pod, e.Phase}, mentions)
	e.nodeSet, e.SandboxUID, e.ContainerID = s.nodeSet, s.uid, cmp.Or(it.ContainerID(), s.id)
	e.Unproven, e.EndedElsewhere, e.OnlyOthersMissing = s.unproven, s.endedElsewhere, s.onlyOthersMissing
	switch {
	case e.Pod == nil || e.SandboxUID == "":
	case e.Pod.HasUID(e.SandboxUID):
		e.Ownership = ItsPod
	default:
		e.Ownership = NotItsPod
	}
	e.Detached = x.isDetached(it, &e, mentions)
	e.HasContradictingReport = x.hasContradictingReport(e.Pod, mentions)
	if e.Phase == podstate.Pending && e.Ownership == NotItsPod {
		since := x.past.Of(it.ID()).StaleSince
		e.AgentMayNotKnow = since.IsZero() || x.Now().Sub(since) < facts.MinAbsenceWhilePending
	}
	e.NetworkComplete, e.Superseded = x.pendingNetwork(it, &e, mentions)
	if name := it.IPAMClaim(); name != nil && e.Problem == "" {
		e.IPAMClaim, e.Detail = x.stateOfIPAMClaim(*name)
	}
	if rest := x.rivalOf(it, &e); rest.obsolete || rest.name != "" {
		e.addRival(rest)
	}
	return e
}

// UnreadRival is the sandbox or pod whose addresses are unknown and that may carry the item's; nil for none.
func (e *Evidence) UnreadRival() (*facts.UnreadSandbox, *facts.UnreadPod) {
	if e.rival == nil {
		return nil, nil
	}
	return e.rival.sandbox, e.rival.pod
}

func (e *Evidence) addRival(r rival) {
	if r.obsolete { // what it does not count for, rests on a missing node
		e.MissingNode, e.Unproven = true, true
	}
	if r.name == "" {
		return
	}
	e.Rival, e.RivalUnread, e.RivalIsGuest, e.GuestUnknown = r.name, r.isUnread, r.isGuest, r.isGuestUnknown
	e.rival = &r
}

// RivalNode is the node of the report that lists the rival; "" for a pod, and for nobody.
func (e *Evidence) RivalNode() string {
	if e.rival == nil {
		return ""
	}
	return e.rival.reportNode
}

// isOnPod reports whether the pod carries the address, by its network-status or podIPs. With agents, an interface does
// not count if another pool records it. A definition that maps to another pool is no proof: it may have been edited.
func (x *judging) isOnPod(it *Item, pod *podstate.Pod) bool {
	hasAddress := func(i podstate.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(ip netip.Addr) bool {
			return it.IsAbout(ip) && !x.isRecordedElsewhere(it, &i, ip)
		})
	}
	return slices.ContainsFunc(pod.IPs, it.IsAbout) || slices.ContainsFunc(pod.Interfaces, hasAddress)
}

func (x *judging) isRecordedElsewhere(it *Item, i *podstate.Interface, ip netip.Addr) bool {
	nad := x.NAD(i.Network)
	if nad == nil || !x.HasAgents() { // without agents nothing reports which of the two is the interface's
		return false
	}
	isOfReading := func(n ippool.Network) bool { return n.Name == it.Network() }
	if it.pool != nil && it.pool.IsMapped(nad) || it.pool == nil && slices.ContainsFunc(nad.Networks, isOfReading) {
		return false
	}
	return slices.ContainsFunc(x.EntriesFor(ip), func(e facts.Entry) bool {
		return e.Pool != it.pool && e.PodRef == it.PodRef() && e.IfName == i.Name && e.Pool.IsMapped(nad)
	})
}

// isDetached reports whether a running sandbox lacks the interface of an allocation. Neither the pod's readable
// network-status nor the sandbox's complete address list has it. The cause is a hot-unplug whose DEL was lost. Such an
// allocation is no leak: an ADD that plugs the interface in again takes it as it is, and writes nothing that the
// release would notice (AssignIP in pkg/allocate/allocate.go of whereabouts v0.8.0 and v0.9.4).
func (x *judging) isDetached(it *Item, e *Evidence, mentions []facts.Mention) bool {
	if it.IfName() == "" || it.Allocation == nil || e.Sandbox != Ready || e.OnPod || e.Phase != podstate.Live ||
		e.Pod.Status != podstate.StatusReadable {
		return false
	}
	// A plugin that reports neither interface nor addresses has a status without a name, or none.
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
		return !readable || a.IfName == it.IfName() || it.IsAbout(ip)
	}
	return reported >= e.Pod.RequestedCount && !slices.ContainsFunc(mentions, func(g facts.Mention) bool {
		if g.Kind == facts.OfGone {
			return false
		}
		isComplete := g.Kind == facts.OfSandbox && g.Report.IsFresh(x.Now()) && g.Report.Name == e.Pod.Node &&
			len(g.Addresses) > 0 && !g.AddressesUnread && !slices.Contains(g.Interfaces, it.IfName())
		return !isComplete || slices.ContainsFunc(g.Addresses, mayHave)
	})
}

// hasContradictingReport reports whether an expired report has the sandbox running and was renewed, by the API server's
// clock, after the containers had ended.
func (x *judging) hasContradictingReport(pod *podstate.Pod, mentions []facts.Mention) bool {
	return pod != nil && slices.ContainsFunc(mentions, func(g facts.Mention) bool {
		renewed := g.Report.LeaseRenewedAt
		return !g.Report.IsFresh(x.Now()) && x.MayHoldAddress(&g) &&
			(renewed.IsZero() || !renewed.Before(pod.LastFinishedAt))
	})
}

// HasEndedSandbox reports whether the sandbox of an entry is known not to run.
func (e *Evidence) HasEndedSandbox() bool {
	return e.Problem == "" && slices.Contains([]Sandbox{Absent, Gone, Stopped, NodeDead}, e.Sandbox)
}

// Node is the one node that the evidence is about, "" for several.
func (e *Evidence) Node() string {
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
