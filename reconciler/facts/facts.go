package facts

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Facts make an observation searchable. After they were built only the pools that MissingPool has made are added. With
// makes other Facts, with the objects of a live read. One goroutine uses them.
type Facts struct {
	o         *Observation
	live      overlay
	doubts    Doubts
	now       time.Time
	policy    Policy
	hasAgents bool // node agents are deployed

	nodes        map[string]*podstate.Node         // empty if they are unknown
	hasNodes     bool                              // they are known
	readNodes    Source[map[string]*podstate.Node] // as they were observed
	nodeNames    map[string]bool                   // for the names of node slices
	namedNodes   map[string]bool                   // these, and the nodes of all reports
	missingNodes map[string]time.Time              // of agentNodes, those without a Node object, see Doubts.Expected
	agentNodes   []string                          // see findAgentNodes
	// selectsNodes: the policy selects a node, or there is none. Otherwise it is not known which nodes must report.
	selectsNodes bool
	states       map[string]NodeState

	reports            []*Report // by name
	byNode             map[string]*Report
	unreadSandboxes    []UnreadSandbox
	unreadPods         []UnreadPod // in a stable order
	byContainerID      map[string][]Mention
	sandboxesByAddress map[netip.Addr][]SandboxAddress

	nads                map[string]*ippool.NAD               // the readable ones, by "<namespace>/<name>"
	definitions         map[netip.Prefix]map[definition]bool // by each of their ranges
	defined             map[DefinedRange][]definition        // the same by network, each once
	definedLengths      []int                                // of those ranges
	poolNames           map[string]bool                      // without namespaces, of all pools
	namespace           string                               // of a pool that an ADD creates, "" if unknown
	missingPools        map[DefinedRange]*Pool               // cache of MissingPool
	pools               []*Pool                              // by name
	ranges              map[netip.Prefix][]*Pool
	lengths             []int                // of those ranges
	networksByNamespace map[networkName]bool // the networks of all pools

	podsByAddress map[netip.Addr][]PodAddress
	guests        map[netip.Addr][]GuestAddress
	guestsByUID   map[string]*podstate.Guest
	reservations  map[types.NamespacedName]*ippool.Reservation
}

var errNoNodes = errors.New("the list of nodes is empty, but pods or reports name nodes")

// New makes the facts of an observation; doubts is nil if nothing is known of earlier observations.
func New(o *Observation, doubts Doubts, policy Policy) *Facts {
	if doubts == nil {
		doubts = noDoubts{}
	}
	read := o.Nodes
	if o.lacksNodes() {
		incomplete := *o
		incomplete.Nodes = Unknown[map[string]*podstate.Node](errNoNodes)
		o = &incomplete
	}
	f := &Facts{o: o, readNodes: read, doubts: doubts, now: o.Now, policy: policy}
	reports, knowsReports := o.Reports.Get()
	f.hasAgents = len(reports) > 0 || !knowsReports || o.AgentLeases.Or(false) ||
		policy.AgentsRequired || doubts.SawReports()
	f.nodes, f.hasNodes = o.Nodes.Get()
	f.nameNodes()
	f.addDefinitions()
	pools := make([]*Pool, 0, len(o.Pools))
	for _, p := range o.Pools {
		pools = append(pools, f.newPool(p, f.networksOf(p)))
	}
	f.setPools(pools)
	f.addPoolNames()
	f.addReports()
	f.namedNodes = maps.Clone(f.nodeNames)
	for name := range f.byNode {
		f.namedNodes[name] = true
	}
	f.agentNodes = f.findAgentNodes()
	f.states = f.nodeStates()
	f.podsByAddress = f.carriedBy(maps.Values(o.Pods), len(o.Pods))
	f.addGuests()
	reservations := o.Reservations.Or(nil)
	f.reservations = make(map[types.NamespacedName]*ippool.Reservation, len(reservations))
	for _, r := range reservations {
		f.reservations[r.NamespacedName] = r
	}
	f.unreadSandboxes, f.unreadPods = f.findUnread(), f.findUnreadPods(f.podsInOrder())
	return f
}

// nameNodes collects the names of nodes: those of the Node objects; if they are unknown, those in reports and pods.
func (f *Facts) nameNodes() {
	f.nodeNames = make(map[string]bool, len(f.nodes))
	for name := range f.nodes {
		f.nodeNames[name] = true
	}
	if f.hasNodes {
		return
	}
	for _, r := range f.o.Reports.Or(nil) {
		f.nodeNames[r.Name] = true
	}
	for _, p := range f.o.Pods {
		if p.Node != "" {
			f.nodeNames[p.Node] = true
		}
	}
}

// podsInOrder are the pods by name, so that the same observation always gives the same messages.
func (f *Facts) podsInOrder() iter.Seq[*podstate.Pod] {
	return func(yield func(*podstate.Pod) bool) {
		unread := func(p *podstate.Pod) bool {
			mayRun := p != nil && (p.Node != "" || p.Contradiction != "") // the node of the latter may be unknown
			return mayRun && (p.MayCarryAny() || p.Machine != nil || p.Status != podstate.StatusReadable)
		}
		var names []types.NamespacedName
		for name, p := range f.o.Pods {
			if _, changed := f.live.pods[name]; !changed && unread(p) {
				names = append(names, name)
			}
		}
		for name, p := range f.live.pods {
			if unread(p) {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, compareNames)
		for _, name := range names {
			if !yield(f.Pod(name.Namespace, name.Name)) {
				return
			}
		}
	}
}

// ReservationNamed is a reservation by its name, nil if it does not exist or reservations are unknown.
func (f *Facts) ReservationNamed(namespace, name string) *ippool.Reservation {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if r, changed := f.live.reservations[at]; changed {
		return r
	}
	return f.reservations[at]
}

// SortedUnique sorts what it gets, in place, and leaves out what is there twice.
func SortedUnique[T cmp.Ordered](in []T) []T {
	slices.Sort(in)
	return slices.Compact(in)
}

// UniqueAddresses are addresses in order, each once. It sorts in place.
func UniqueAddresses(in []netip.Addr) []netip.Addr {
	slices.SortFunc(in, netip.Addr.Compare)
	return slices.Compact(in)
}

// CompareReservations orders reservations by namespace, then by name.
func CompareReservations(a, b *ippool.Reservation) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(a.Ref(), b.Ref())
}
