package facts

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Observation is everything that is judged, as it was read. Reservations and pools are read first and pods last: the
// pod of an entry that was read existed before the pods were read. Pools and pods are complete: who cannot read them
// has an error and no Observation. Each other source says whether it is complete or unknown.
type Observation struct {
	// Now is the time by the clock that wrote the objects' timestamps: the API server's, or the snapshot's.
	Now time.Time
	// Local is the time by this process' own clock; zero if it is not used.
	Local time.Time
	// Static: the source cannot change, as a snapshot. This process' own clock is not used.
	Static bool
	Pools  []*ippool.Pool                         `json:"-"`
	Pods   map[types.NamespacedName]*podstate.Pod `json:"-"`
	// Reservations are OverlappingRangeIPReservations.
	Reservations Source[[]*ippool.Reservation]
	NADs         Source[map[types.NamespacedName]*ippool.NAD]
	// IPAMClaims are read only where an allocation or reservation names one.
	IPAMClaims Source[map[types.NamespacedName]*ippool.Claim]
	// Guests are read only where NeedsGuests, or where somebody asks for all of them.
	Guests Source[[]*podstate.Guest]
	// Nodes are by name.
	Nodes Source[map[string]*podstate.Node]
	// Reports include one without content, which is never fresh, for each report that cannot be decoded.
	Reports Source[[]*podstate.Report]
	// AgentLeases: whether any agent's Lease exists. Without agents there is none.
	AgentLeases Source[bool]
	// MissingReports are nodes whose reports this process knew and that no longer exist, with the time since when. They
	// are of the last minutes.
	MissingReports map[string]time.Time
	// Watched: pods and reservations come from watch caches, not from a quorum read.
	Watched bool
	// Paused: an operator paused everything, or may have: see PauseUnknown.
	Paused bool
	// PauseUnknown is why it is unknown whether everything is paused; "" if it is known.
	PauseUnknown string
	// Acknowledged is the ID of the restore of etcd that an operator has acknowledged; "" for none.
	Acknowledged string
	// RestoreState is the stored text on the last restore of etcd, "" for none or where it was not read.
	RestoreState string
	// Revision is etcd's revision at which the pools were listed; 0 if unknown.
	Revision uint64
	// Versions are those of pools, reports and the agents' Leases, in the order in which answers to quorum reads had them.
	// Where a read failed, they are those of all answers until then.
	Versions []Version `json:"-"`
	// FencedSince is since when this process holds whereabouts' Leases, so that no ADD or DEL can finish. It is by the
	// clock of Now; zero without a fence.
	FencedSince time.Time
	// Restored says how this observation detected a restore of etcd, "" for none.
	Restored string
	// Unreadable has a sentence for each object that could not be read at all.
	Unreadable []string
	// PodsComplete: somebody says that Pods are all pods, although there may be none.
	PodsComplete bool
	// LackingPods are namespaces in which a snapshot has allocations or reservations and no pods: they may not have been
	// exported.
	LackingPods []string
	// Cut is a file of a bundle without its manifest, so that other files may be missing, too; "" for none.
	Cut string
	// Warnings has a sentence for each source that could not be read.
	Warnings []string
}

// Version is the version of an object in an answer of the API server.
type Version struct {
	Object          string // PoolList, or what it is and its name
	ResourceVersion string
}

// What begins Version.Object, before the name. A pool's has its namespace; a report and its Lease have their node's.
const (
	PoolObject   = "IPPool "
	ReportObject = "SandboxReport "
	LeaseObject  = "Lease "
	PoolList     = "the list of IPPools" // its revision, which is etcd's
)

// PodsMissing is an error if the list of pods is empty although something is allocated: an empty answer proves nothing,
// unless somebody says that there are none.
func (o *Observation) PodsMissing() error {
	isAllocated := len(o.Reservations.Or(nil)) > 0 ||
		slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool { return len(p.Allocations) > 0 })
	if !isAllocated || len(o.Pods) > 0 || o.PodsComplete {
		return nil
	}
	return errors.New("the list of pods is empty, but addresses are allocated or reserved, so the list is incomplete; " +
		"check 'kubectl get pods -A' (add that list to a snapshot, or use --pods-complete if the cluster has no pods)")
}

// lacksNodes reports whether the list of nodes is empty although a pod is bound to a node, or a node has a report. It
// is incomplete then.
func (o *Observation) lacksNodes() bool {
	nodes, known := o.Nodes.Get()
	if !known || len(nodes) > 0 {
		return false
	}
	if len(o.Reports.Or(nil)) > 0 {
		return true
	}
	for _, p := range o.Pods {
		if p.Node != "" {
			return true
		}
	}
	return false
}

// NamesIPAMClaim reports whether an allocation or reservation names an IPAMClaim.
func (o *Observation) NamesIPAMClaim() bool {
	return slices.ContainsFunc(o.Reservations.Or(nil), func(r *ippool.Reservation) bool { return r.Claim != nil }) ||
		slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool {
			return slices.ContainsFunc(p.Allocations, func(a ippool.Allocation) bool { return a.Claim != nil })
		})
}

// NeedsGuests reports whether a machine's pod runs in the namespace of a pod that has an allocation and does not run. A
// guest may have moved from the one to the other with its address.
func (o *Observation) NeedsGuests() bool {
	namespaces, claims := map[string]bool{}, o.IPAMClaims.Or(nil)
	for _, m := range o.Machines() {
		namespaces[m.Namespace] = true
	}
	return len(namespaces) > 0 && slices.ContainsFunc(o.Pools, func(pool *ippool.Pool) bool {
		return slices.ContainsFunc(pool.Allocations, func(a ippool.Allocation) bool {
			p := o.Pods[types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name}]
			runs := p != nil && (p.Phase == podstate.Live || p.Phase == podstate.Pending)
			isKept := a.Claim != nil && claims[*a.Claim] != nil
			return namespaces[a.Owner.Namespace] && !runs && !isKept
		})
	})
}

// Machines are the pods in which virtual machines run, in no order. Their guests may have any address.
func (o *Observation) Machines() (pods []types.NamespacedName) {
	for name, p := range o.Pods {
		if p.Machine != nil && p.Phase != podstate.Finished {
			pods = append(pods, name)
		}
	}
	return pods
}

// Policy is what the operator configures.
type Policy struct {
	// AgentsRequired: without reports every sandbox is unknown. Otherwise the API alone decides then.
	AgentsRequired bool
	// AgentNodes selects the nodes that run an agent. Nil selects those with kubernetes.io/os=linux. A node without that
	// label is selected by what else the selector requires.
	AgentNodes labels.Selector
	// UnreachableNodeTimeout is after how long a node that is not Ready no longer holds addresses. 0, the default, means
	// never: the addresses of an unreachable node may still be in use.
	UnreachableNodeTimeout time.Duration
	// TrustNetworkStatus: without agents an address that a running pod's network-status lacks is Stale. Whoever may edit
	// the pod can then cause its address to be assigned twice.
	TrustNetworkStatus bool
	// MissingAfter is for how long the last report of a missing node claims its addresses. 0 means 15 minutes.
	MissingAfter time.Duration
}

func (p Policy) missingAfter() time.Duration {
	if p.MissingAfter == 0 {
		return 15 * time.Minute
	}
	return p.MissingAfter
}

// Selector is a function that reports whether a node should have an agent. A missing label for the operating system
// proves nothing: kubelet writes it when it registers the Node, and the node runs on without it.
func (p Policy) Selector() func(*podstate.Node) bool {
	requirements, isSelective := labels.Requirements(nil), true
	if p.AgentNodes != nil {
		requirements, isSelective = p.AgentNodes.Requirements()
	} else {
		requirements, _ = labels.SelectorFromSet(labels.Set{corev1.LabelOSStable: "linux"}).Requirements()
	}
	return func(n *podstate.Node) bool {
		return isSelective && !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
			set := labels.Set(n.Labels)
			isUnknown := r.Key() == corev1.LabelOSStable && !set.Has(r.Key())
			return !isUnknown && !r.Matches(set)
		})
	}
}

// excludes reports whether the policy excludes a node from those that must report, by a label that is there.
func (p Policy) excludes(n *podstate.Node) bool {
	if p.AgentNodes == nil {
		return !p.Selector()(n) // by the only label that it reads
	}
	requirements, _ := p.AgentNodes.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		set := labels.Set(n.Labels)
		return set.Has(r.Key()) && !r.Matches(set)
	})
}

// Doubts is what this process learned from earlier observations of reports, nodes and restores of etcd.
type Doubts interface {
	// SawReports reports whether a SandboxReport was ever observed: the cluster then has agents.
	SawReports() bool
	// Expected are the nodes that had to report in earlier observations, each with the time at which the Node object that
	// was observed first was created. A node leaves them by evidence only: see Index.agentNodes.
	Expected() map[string]time.Time
	// DoubtsTaint reports whether a restore of etcd may have brought back the node's out-of-service taint. It proves
	// nothing then.
	DoubtsTaint(n *podstate.Node) bool
	// LosesNode returns the ID of the restore of etcd that has lost the Node object of a node which runs on; "" for none.
	LosesNode(node string) (id string)
	// DoubtsStatus reports whether the network-status of a pod whose sandbox was created at a time may be of a sandbox
	// before, because a restore of etcd brought it back. Multus writes it once for each sandbox (multus-cni v4.2.4,
	// pkg/multus/multus.go, CmdAdd). Its networks are the pod's, its addresses may not be.
	DoubtsStatus(created time.Time) bool
}

// noDoubts are the Doubts of a process without earlier observations.
type noDoubts struct{}

func (noDoubts) SawReports() bool                { return false }
func (noDoubts) Expected() map[string]time.Time  { return nil }
func (noDoubts) DoubtsTaint(*podstate.Node) bool { return false }
func (noDoubts) LosesNode(string) string         { return "" }
func (noDoubts) DoubtsStatus(time.Time) bool     { return false }
