package judge

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Observation is everything that is judged, as it was read: reservations and pools first, pods last, so that an entry
// which was seen belongs to a pod that existed before the pods were read.
type Observation struct {
	// Now is the time by the clock that wrote the objects' timestamps: the API server's, or the snapshot's.
	Now time.Time
	// Local is the time by this process' own clock; zero where it plays no part.
	Local time.Time
	// Static: the source cannot change, as a snapshot. This process' own clock plays no part.
	Static       bool
	Pools        []*ippool.Pool
	Reservations []*ippool.Reservation
	NADs         map[types.NamespacedName]*ippool.NAD
	Pods         map[types.NamespacedName]*podstate.Pod
	// Nodes by name. Empty means that nothing is known of nodes, not that there are none.
	Nodes   map[string]*podstate.Node
	Reports []*podstate.Report
	// ReportsUnreadable: SandboxReports are served and could not be read, so
	// that no report is no proof that there is no agent.
	ReportsUnreadable bool
	// MissingReports are nodes whose reports this process knew before it observed the cluster, and that are not
	// there any more; the time is since when. They are of the last minutes.
	MissingReports map[string]time.Time
	// Watched: pods and reservations are what watches have told, not what a quorum read found.
	Watched bool
	// Paused: the operator stopped every release.
	Paused bool
	// Acknowledged is the time of AcknowledgedAnnotation; zero for none.
	Acknowledged time.Time
	// Revision is etcd's revision at which the pools were listed; 0 if unknown.
	Revision uint64
	// FencedSince is since when no ADD or DEL can be done, by the clock of Now: this process
	// holds whereabouts' Leases. Zero where it does not.
	FencedSince time.Time
	// Restored says what showed that etcd was restored, "" if nothing did.
	Restored string
	// Unreadable are objects that could not be read at all, a sentence each.
	Unreadable []string
	// Warnings are what could not be read, a sentence each.
	Warnings []string
}

// PodsMissing is an error where no pod at all was listed although something is
// allocated: an empty answer proves nothing, and where whereabouts runs there are pods.
func (o *Observation) PodsMissing() error {
	n := len(o.Reservations)
	for _, p := range o.Pools {
		n += len(p.Allocations)
	}
	if n == 0 || len(o.Pods) > 0 {
		return nil
	}
	return fmt.Errorf("there is no pod at all beside %d allocations and reservations, so the list of pods is not complete; check 'kubectl get pods -A' (in a folder add that list, or if there are none use --pods-complete)", n)
}

// Policy is what an operator decides about judging.
type Policy struct {
	// AgentsRequired: without reports nothing is known, instead of judging by the API alone.
	AgentsRequired bool
	// AgentNodes selects the nodes that run an agent. Nil selects those with kubernetes.io/os=linux.
	AgentNodes labels.Selector
	// UnreachableNodeTimeout makes what a node that is not Ready for so long keeps Held stale. 0, the default, never
	// does: behind a partition the address is still in use.
	UnreachableNodeTimeout time.Duration
	// TrustNetworkStatus makes Stale, without agents, what the network-status of a running pod
	// lacks. Whoever may edit the pod can then have its address assigned twice.
	TrustNetworkStatus bool
	// MissingAfter is for how long the last report of a node whose Node object is gone
	// still claims its addresses: as long as an unconfirmed verdict must hold. 0 is 15 min.
	MissingAfter time.Duration
}

func (p Policy) missingAfter() time.Duration {
	if p.MissingAfter == 0 {
		return 15 * time.Minute
	}
	return p.MissingAfter
}

// Selector reports whether a node should have an agent.
func (p Policy) Selector() func(*podstate.Node) bool {
	s := p.AgentNodes
	if s == nil {
		s = labels.SelectorFromSet(labels.Set{"kubernetes.io/os": "linux"})
	}
	return func(n *podstate.Node) bool { return s.Matches(labels.Set(n.Labels)) }
}

// Past is what earlier observations of this process taught. Judging reads it and never writes it.
type Past interface {
	// SawReports reports whether a SandboxReport was ever there: without one now there are agents all the same.
	SawReports() bool
	// DoubtsTaint reports whether the out-of-service taint of a node may be one that a restore
	// of etcd has brought back: it then proves nothing.
	DoubtsTaint(n *podstate.Node) bool
	// DoubtsBoot reports whether the boot and the machine that a Node tells of may be those that
	// a restore of etcd has brought back: another one in a report is then no earlier one.
	DoubtsBoot(n *podstate.Node) bool
	// Of is what is known of an allocation or a reservation; the zero ItemHistory where nothing is.
	Of(id ID) ItemHistory
}

// ItemHistory is what earlier observations taught of one allocation or reservation.
type ItemHistory struct {
	// First is when it was seen first; zero where it was not.
	First time.Time
	// StaleSince is since when it was judged Stale at every observation; zero if it was not at the last one.
	StaleSince time.Time
	// UncontradictedSince is the same for what is Stale or IsUndetermined; zero, too, for a
	// reservation of which there is an entry.
	UncontradictedSince time.Time
	// RanOn are the nodes of pods that were seen by the owner's name.
	RanOn []string
	// CarriedOn are the nodes of pods of other names that were seen carrying the address.
	CarriedOn []string
}

// noPast is that of a process that has observed nothing before.
type noPast struct{}

func (noPast) SawReports() bool                { return false }
func (noPast) DoubtsTaint(*podstate.Node) bool { return false }
func (noPast) DoubtsBoot(*podstate.Node) bool  { return false }
func (noPast) Of(ID) ItemHistory               { return ItemHistory{} }
