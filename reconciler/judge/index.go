package judge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Index makes an observation searchable. Only its cache of node sets changes after it was built. With makes another
// Index with the objects of a live read. One goroutine uses it.
type Index struct {
	o         *Observation
	live      overlay
	past      Past
	now       time.Time
	policy    Policy
	hasAgents bool // node agents are deployed

	nodeNames  map[string]bool // for the names of node slices
	agentNodes []string        // see findAgentNodes
	states     map[string]NodeState
	nodeSets   map[nodeSetKey]*nodeSet // cache of nodeSetOf

	reports            []*report // by name
	byNode             map[string]*report
	unreadSandboxes    []unreadSandbox
	byContainerID      map[string][]mention
	sandboxesByAddress map[netip.Addr][]sandboxAddress

	nads                map[string]*ippool.NAD               // the readable ones, by "<namespace>/<name>"
	definitions         map[netip.Prefix]map[definition]bool // by each of their ranges
	overlaps            map[definedRange]bool                // whether a range without slices uses overlapping ranges
	missingPools        map[definedRange]*pool
	pools               []*pool // by name
	ranges              map[netip.Prefix][]*pool
	lengths             []int                // of those ranges
	networksByNamespace map[networkName]bool // the networks of all pools

	podsByAddress map[netip.Addr][]podAddress
	guests        map[netip.Addr][]guestAddress
	reservations  map[types.NamespacedName]*ippool.Reservation
}

// NewIndex indexes an observation; past is nil if nothing is known of earlier observations.
func NewIndex(o *Observation, past Past, policy Policy) *Index {
	if past == nil {
		past = noPast{}
	}
	x := &Index{
		o: o, past: past, now: o.Now, policy: policy, nodeSets: map[nodeSetKey]*nodeSet{},
		hasAgents:    len(o.Reports) > 0 || o.ReportsUnreadable || policy.AgentsRequired || past.SawReports(),
		reservations: make(map[types.NamespacedName]*ippool.Reservation, len(o.Reservations)),
	}
	x.nameNodes()
	x.addDefinitions()
	pools := make([]*pool, 0, len(o.Pools))
	for _, p := range o.Pools {
		pools = append(pools, x.newPool(p, x.networksOf(p)))
	}
	x.setPools(pools)
	x.addMissingPools()
	x.addReports()
	x.agentNodes = x.findAgentNodes()
	x.states = x.nodeStates()
	x.podsByAddress = x.carriedBy(maps.Values(o.Pods), len(o.Pods))
	x.addGuests()
	for _, r := range o.Reservations {
		x.reservations[r.NamespacedName] = r
	}
	for _, p := range x.pools {
		if p.byOffset == nil {
			continue
		}
		for addr := range x.podsByAddress {
			p.carriedByKey.add(p.Range, addr)
		}
		for addr := range x.sandboxesByAddress {
			p.carriedByKey.add(p.Range, addr)
		}
	}
	x.unreadSandboxes = x.findUnread()
	return x
}

// nameNodes collects the names of nodes: those of the Node objects; without any, those in reports and pods.
func (x *Index) nameNodes() {
	x.nodeNames = make(map[string]bool, len(x.o.Nodes))
	for name := range x.o.Nodes {
		x.nodeNames[name] = true
	}
	if len(x.o.Nodes) > 0 {
		return
	}
	for _, r := range x.o.Reports {
		x.nodeNames[r.Name] = true
	}
	for _, p := range x.o.Pods {
		if p.Node != "" {
			x.nodeNames[p.Node] = true
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
