package judge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Index is an observation as judging looks things up in it. Nothing of it changes after it was
// built, but for what it remembers of its own answers; With makes another one of what live reads
// find. It is used by one goroutine.
type Index struct {
	o      *Observation
	live   overlay
	past   Past // nil for nothing
	now    time.Time
	policy Policy
	rules  *rules
	inUse  bool // reports are in use

	nodeNames  map[string]bool // for the names of node slices
	agentNodes []string        // see findAgentNodes
	states     map[string]NodeState
	nodeSets   map[nodeSetKey]*nodeSet // those that were asked for

	reports            []*report // by name
	byNode             map[string]*report
	heardSince         time.Time       // see findHeardSince
	unread             []unreadSandbox // see findUnread; nil until it is asked for
	byContainerID      map[string][]reportEntry
	sandboxesByAddress map[netip.Addr][]sandboxAddress

	nads           map[string]*ippool.NAD               // the readable ones, by "<namespace>/<name>"
	defined        map[definedRange]bool                // whether it uses overlapping ranges
	definitions    map[netip.Prefix]map[definition]bool // by each of their ranges
	pools          []*pool                              // by name
	ranges         map[netip.Prefix][]*pool
	lengths        [2][]int         // of those ranges, of IPv4 and of IPv6
	ambiguousPools []*pool          // those with ambiguous keys
	poolNamespace  string           // "" where it is not known in which one a pool is made
	missingPools   map[string]*pool // by "<namespace>/<name>": those that were asked for and should be there

	podsByAddress       map[netip.Addr][]podAddress
	networksByNamespace map[networkName]bool // the networks of all pools
	reservations        map[types.NamespacedName]*ippool.Reservation
}

// NewIndex indexes an observation; past is nil where nothing is known of earlier ones.
func NewIndex(o *Observation, past Past, policy Policy) *Index {
	x := &Index{
		o: o, past: past, now: o.Now, policy: policy, rules: newRules(), nodeSets: map[nodeSetKey]*nodeSet{}, missingPools: map[string]*pool{},
		inUse: len(o.Reports) > 0 || o.ReportsUnreadable || policy.AgentsRequired || past != nil && past.SawReports(),
	}
	x.nameNodes()
	x.addDefinitions()
	x.addPools()
	x.addReports()
	x.heardSince = findHeardSince(o.Reports, o.Now)
	x.agentNodes = x.findAgentNodes()
	x.podsByAddress = x.carriedBy(maps.Values(o.Pods), len(o.Pods))
	x.reservations = make(map[types.NamespacedName]*ippool.Reservation, len(o.Reservations))
	for _, r := range o.Reservations {
		x.reservations[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
	}
	for _, p := range x.ambiguousPools {
		for addr := range x.podsByAddress {
			p.carries(addr)
		}
		for addr := range x.sandboxesByAddress {
			p.carries(addr)
		}
	}
	x.states = x.nodeStates()
	return x
}

// nameNodes collects the names that a node slice's pool may carry: those of the
// Node objects; without any, those in reports and pods.
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

// dead reports whether a node is proven dead by its Node object.
func (x *Index) dead(node string) bool {
	n := x.o.Nodes[node]
	return n != nil && n.Dead() && (x.past == nil || !x.past.DoubtsTaint(n))
}

// rebooted reports whether the node runs another boot than at the time of the report,
// on the same machine: another machine under the name says nothing of the one before. While no
// agent is heard that was there before the boot, etcd may just have been restored, with nobody to
// tell of it yet: then what the node has run since it booted is not known, and its pods may have
// been given the addresses of entries that the restore brought back.
func (x *Index) rebooted(r *report) bool {
	n := x.o.Nodes[r.Name]
	heard := !x.heardSince.IsZero() && x.heardSince.Before(r.lastRenewed())
	return heard && x.anotherBoot(n, r) && n.Machine.Same(r.Machine)
}

// findHeardSince is since when the first of the reports that are fresh has been there; zero for
// none, or where that is not known.
func findHeardSince(reports []*podstate.Report, now time.Time) (since time.Time) {
	for _, r := range reports {
		if r.Fresh(now) && (since.IsZero() || r.CreationTimestamp.Time.Before(since)) {
			since = r.CreationTimestamp.Time
		}
	}
	return since
}

// lastRenewed is when the agent was last heard, whatever its Lease confirms.
func (r *report) lastRenewed() time.Time {
	if r.LeaseRenewed.IsZero() {
		return r.Written
	}
	return r.LeaseRenewed
}

// anotherBoot reports whether a Node, nil if there is none, is known to be at a later boot than
// its report.
func (x *Index) anotherBoot(n *podstate.Node, r *report) bool {
	return n != nil && n.BootID != "" && r.BootID != "" && n.BootID != r.BootID && (x.past == nil || !x.past.DoubtsBoot(n))
}

// replaced reports whether another machine runs under the node's name than at the
// time of the report: what the one before ran is then as that of a missing node.
func (x *Index) replaced(r *report) bool {
	return !x.isFresh(r) && x.anotherBoot(x.o.Nodes[r.Name], r) && x.ofAnotherMachine(r) // a machine id can be made again while all runs on
}

// ofAnotherMachine reports whether the machine of a report is known, and its Node names another.
func (x *Index) ofAnotherMachine(r *report) bool {
	n := x.o.Nodes[r.Name]
	return n != nil && n.Machine.Known() && r.Machine.Known() && n.Machine != r.Machine
}

// expired reports whether the machine of a report has been gone, and its agent silent,
// for as long as an unconfirmed verdict must hold.
func (x *Index) expired(r *report) bool {
	at, ok := x.expires(r)
	return ok && !x.now.Before(at)
}

// expires is when what a report says lapses; ok is false while its machine is there.
func (x *Index) expires(r *report) (at time.Time, ok bool) {
	renewed := r.lastRenewed()
	return renewed.Add(x.policy.missingAfter()), !x.isFresh(r) && !renewed.IsZero() && (x.missing(r.Name) || x.replaced(r))
}

// endedWithNode reports whether what a report says ended with its node: it is stale, and
// the node is dead or has booted again since.
func (x *Index) endedWithNode(r *report) bool {
	return !x.isFresh(r) && (x.dead(r.Name) || x.rebooted(r))
}

func (x *Index) missing(node string) bool {
	return len(x.o.Nodes) > 0 && node != "" && x.o.Nodes[node] == nil
}

func (x *Index) hasFreshReport(node string) bool {
	r := x.byNode[node]
	return r != nil && x.isFresh(r)
}

// isFresh reports whether a report may be relied upon now.
func (x *Index) isFresh(r *report) bool { return r.Fresh(x.now) }

// notReady reports whether a node is known not to be Ready.
func (x *Index) notReady(node string) bool {
	n := x.o.Nodes[node]
	return n != nil && !n.Ready
}

func sortedUnique[T cmp.Ordered](in []T) []T {
	slices.Sort(in)
	return slices.Compact(in)
}

// readableNADs are those that can be read, by the name that a network-status
// gives them.
func readableNADs(o *Observation) map[string]*ippool.NAD {
	found := make(map[string]*ippool.NAD, len(o.NADs))
	for name, n := range o.NADs {
		if n != nil && n.Problem == "" && name.Namespace != "" && name.Name != "" {
			found[name.Namespace+"/"+name.Name] = n
		}
	}
	return found
}
