package judge

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

// Index makes an observation searchable. Only its caches change after it was built. With makes another
// Index with the objects of a live read. One goroutine uses it.
type Index struct {
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

	reports            []*report // by name
	byNode             map[string]*report
	unreadSandboxes    []unreadSandbox
	unreadPods         []unreadPod // in a stable order
	byContainerID      map[string][]mention
	sandboxesByAddress map[netip.Addr][]sandboxAddress

	nads                map[string]*ippool.NAD               // the readable ones, by "<namespace>/<name>"
	definitions         map[netip.Prefix]map[definition]bool // by each of their ranges
	defined             map[definedRange][]definition        // the same by network, each once
	definedLengths      []int                                // of those ranges
	poolNames           map[string]bool                      // without namespaces, of all pools
	namespace           string                               // of a pool that an ADD creates, "" if unknown
	missingPools        map[definedRange]*pool               // cache of missingPool
	pools               []*pool                              // by name
	ranges              map[netip.Prefix][]*pool
	lengths             []int                // of those ranges
	networksByNamespace map[networkName]bool // the networks of all pools

	podsByAddress map[netip.Addr][]podAddress
	guests        map[netip.Addr][]guestAddress
	guestsByUID   map[string]*podstate.Guest
	reservations  map[types.NamespacedName]*ippool.Reservation
}

var errNoNodes = errors.New("the list of nodes is empty, but pods or reports name nodes")

// NewIndex indexes an observation; doubts is nil if nothing is known of earlier observations.
func NewIndex(o *Observation, doubts Doubts, policy Policy) *Index {
	if doubts == nil {
		doubts = noDoubts{}
	}
	read := o.Nodes
	if o.lacksNodes() {
		incomplete := *o
		incomplete.Nodes = Unknown[map[string]*podstate.Node](errNoNodes)
		o = &incomplete
	}
	x := &Index{o: o, readNodes: read, doubts: doubts, now: o.Now, policy: policy}
	reports, knowsReports := o.Reports.Get()
	x.hasAgents = len(reports) > 0 || !knowsReports || o.AgentLeases.Or(false) ||
		policy.AgentsRequired || doubts.SawReports()
	x.nodes, x.hasNodes = o.Nodes.Get()
	x.nameNodes()
	x.addDefinitions()
	pools := make([]*pool, 0, len(o.Pools))
	for _, p := range o.Pools {
		pools = append(pools, x.newPool(p, x.networksOf(p)))
	}
	x.setPools(pools)
	x.addPoolNames()
	x.addReports()
	x.namedNodes = maps.Clone(x.nodeNames)
	for name := range x.byNode {
		x.namedNodes[name] = true
	}
	x.agentNodes = x.findAgentNodes()
	x.states = x.nodeStates()
	x.podsByAddress = x.carriedBy(maps.Values(o.Pods), len(o.Pods))
	x.addGuests()
	reservations := o.Reservations.Or(nil)
	x.reservations = make(map[types.NamespacedName]*ippool.Reservation, len(reservations))
	for _, r := range reservations {
		x.reservations[r.NamespacedName] = r
	}
	x.unreadSandboxes, x.unreadPods = x.findUnread(), x.findUnreadPods(x.podsInOrder())
	return x
}

// nameNodes collects the names of nodes: those of the Node objects; if they are unknown, those in reports and pods.
func (x *Index) nameNodes() {
	x.nodeNames = make(map[string]bool, len(x.nodes))
	for name := range x.nodes {
		x.nodeNames[name] = true
	}
	if x.hasNodes {
		return
	}
	for _, r := range x.o.Reports.Or(nil) {
		x.nodeNames[r.Name] = true
	}
	for _, p := range x.o.Pods {
		if p.Node != "" {
			x.nodeNames[p.Node] = true
		}
	}
}

// podsInOrder are the pods by name, so that the same observation always gives the same messages.
func (x *Index) podsInOrder() iter.Seq[*podstate.Pod] {
	return func(yield func(*podstate.Pod) bool) {
		unread := func(p *podstate.Pod) bool {
			mayRun := p != nil && (p.Node != "" || p.Contradiction != "") // the node of the latter may be unknown
			return mayRun && (p.MayCarryAny() || p.Machine != nil || p.Status != podstate.StatusReadable)
		}
		var names []types.NamespacedName
		for name, p := range x.o.Pods {
			if _, changed := x.live.pods[name]; !changed && unread(p) {
				names = append(names, name)
			}
		}
		for name, p := range x.live.pods {
			if unread(p) {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, compareNames)
		for _, name := range names {
			if !yield(x.pod(name.Namespace, name.Name)) {
				return
			}
		}
	}
}

func (x *Index) reservationNamed(namespace, name string) *ippool.Reservation {
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if r, changed := x.live.reservations[at]; changed {
		return r
	}
	return x.reservations[at]
}

func sortedUnique[T cmp.Ordered](in []T) []T {
	slices.Sort(in)
	return slices.Compact(in)
}

func uniqueAddresses(in []netip.Addr) []netip.Addr {
	slices.SortFunc(in, netip.Addr.Compare)
	return slices.Compact(in)
}

func byName(a, b *ippool.Reservation) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(a.Ref(), b.Ref())
}
