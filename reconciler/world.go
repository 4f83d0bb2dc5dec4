package reconciler

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// world is an observation with the indexes that judging needs, so that the cost
// of a pass grows with the number of objects and not with its square.
type world struct {
	*Observation
	policy    Policy
	nodeNames map[string]bool // for the names of node slices
	agents    []string        // see agentNodes
	reports   map[string]*podstate.Report
	inUse     bool // reports are in use
	byID      map[string][]sighting
	boxes     map[netip.Addr][]boxAddress
	pods      map[netip.Addr][]podAddress
	shared    map[*ippool.Pool]map[uint64][]netip.Addr // for pools with ambiguous keys
	networks  map[*ippool.Pool][]string
	// entries are the allocations by the address that reads back from their
	// key, also those that cannot be judged for another Problem.
	entries map[netip.Addr][]entry
	keyed   map[*ippool.Pool]map[uint64][]*ippool.Allocation // of pools with ambiguous keys
	taken   map[*ippool.Pool]map[uint64]bool                 // keys that have an entry, readable or not
}

// sighting is one mention of a container id in a report; one of the three is set.
type sighting struct {
	report *podstate.Report
	box    *v1alpha1.Sandbox
	att    *v1alpha1.Attachment
	gone   *v1alpha1.Gone
}

// boxAddress is an address that a report says is configured in a sandbox.
type boxAddress struct {
	sighting
	v1alpha1.Address
}

// podAddress is an address in the network-status of a pod that is not finished.
type podAddress struct {
	pod   *podstate.Pod
	iface podstate.Interface
	nad   *ippool.NAD // nil: it cannot be read
}

type entry struct {
	pool *ippool.Pool
	*ippool.Allocation
}

func newWorld(o *Observation, policy Policy) *world {
	w := &world{
		Observation: o, policy: policy,
		nodeNames: map[string]bool{},
		reports:   map[string]*podstate.Report{},
		byID:      map[string][]sighting{},
		boxes:     map[netip.Addr][]boxAddress{},
		pods:      map[netip.Addr][]podAddress{},
		shared:    map[*ippool.Pool]map[uint64][]netip.Addr{},
		networks:  map[*ippool.Pool][]string{},
		entries:   map[netip.Addr][]entry{},
		keyed:     map[*ippool.Pool]map[uint64][]*ippool.Allocation{},
		taken:     map[*ippool.Pool]map[uint64]bool{},
	}
	w.inUse = len(o.Reports) > 0 || o.ReportsUnreadable || policy.AgentsRequired || o.Past.sawReports()
	for _, r := range o.Reports {
		w.reports[r.Name] = r
		w.indexReport(r)
	}
	w.nameNodes()
	w.agents = w.agentNodes()
	for _, p := range o.Pods {
		w.indexPod(p)
	}
	for _, p := range o.Pools {
		w.indexPool(p)
	}
	return w
}

func (w *world) indexReport(r *podstate.Report) {
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		w.sight(b.ID, sighting{report: r, box: b}, b.Addresses)
	}
	for i := range r.Attachments {
		a := &r.Attachments[i]
		w.sight(a.ID, sighting{report: r, att: a}, a.Addresses)
	}
	for i := range r.Gone {
		w.sight(r.Gone[i].ID, sighting{report: r, gone: &r.Gone[i]}, nil)
	}
}

func (w *world) sight(id string, s sighting, addresses []v1alpha1.Address) {
	if id != "" {
		w.byID[id] = append(w.byID[id], s)
	}
	for _, a := range addresses {
		if addr, ok := podstate.ParseAddress(a); ok {
			w.boxes[addr] = append(w.boxes[addr], boxAddress{s, a})
		}
	}
}

// nameNodes collects the names that a node slice's pool may carry: those of the
// Node objects; without any, those in reports and pods.
func (w *world) nameNodes() {
	for name := range w.Nodes {
		w.nodeNames[name] = true
	}
	if len(w.Nodes) > 0 {
		return
	}
	for name := range w.reports {
		w.nodeNames[name] = true
	}
	for _, p := range w.Pods {
		if p.Node != "" {
			w.nodeNames[p.Node] = true
		}
	}
}

func (w *world) indexPod(p *podstate.Pod) {
	for _, i := range p.Interfaces {
		nad := w.nad(i)
		for _, a := range i.Addresses {
			w.pods[a] = append(w.pods[a], podAddress{p, i, nad})
		}
	}
}

// nad is the definition behind an interface, nil where it cannot be read.
func (w *world) nad(i podstate.Interface) *ippool.NAD {
	namespace, name, ok := i.NAD()
	if !ok {
		return nil
	}
	n := w.NADs[types.NamespacedName{Namespace: namespace, Name: name}]
	if n == nil || n.Problem != "" {
		return nil
	}
	return n
}

func (w *world) indexPool(p *ippool.Pool) {
	w.networks[p] = w.networksOf(p)
	taken := make(map[uint64]bool, len(p.Allocations))
	for i := range p.Allocations {
		a := &p.Allocations[i]
		if n, err := ippool.ParseKey(a.Key); err == nil {
			taken[n] = true
		}
		if a.Address.IsValid() {
			w.entries[a.Address] = append(w.entries[a.Address], entry{p, a})
		}
	}
	w.taken[p] = taken
	if p.Problem != "" || !p.Range.AmbiguousKeys() {
		return
	}
	// Only here may an entry stand for an address that does not read back from
	// its key, so every address in use is looked up by every key it may have.
	keyed := map[uint64][]*ippool.Allocation{}
	for i := range p.Allocations {
		if a := &p.Allocations[i]; a.Address.IsValid() {
			keyed[a.Offset] = append(keyed[a.Offset], a)
		}
	}
	w.keyed[p] = keyed
	carried := map[uint64][]netip.Addr{}
	for _, addr := range slices.Concat(slices.Collect(maps.Keys(w.pods)), slices.Collect(maps.Keys(w.boxes))) {
		for _, k := range p.Range.Keys(addr) {
			if keyed[k] != nil && !slices.Contains(carried[k], addr) {
				carried[k] = append(carried[k], addr)
			}
		}
	}
	w.shared[p] = carried
}

// networksOf are the network names that a pool's name admits: also, where a
// definition cuts the pool's range into slices, that of a slice whose node is gone.
func (w *world) networksOf(p *ippool.Pool) []string {
	names := p.Networks(w.nodeNames)
	if names == nil {
		return nil
	}
	for _, nad := range w.NADs {
		for _, n := range nad.Networks {
			if n.MayHaveSlice(p) && !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// entriesFor are all entries that may stand for an address.
func (w *world) entriesFor(addr netip.Addr) []entry {
	found := slices.Clone(w.entries[addr])
	for p, keyed := range w.keyed {
		for _, k := range p.Range.Keys(addr) {
			for _, a := range keyed[k] {
				if a.Address != addr {
					found = append(found, entry{p, a})
				}
			}
		}
	}
	return found
}

// addresses are all that an entry may stand for and that somebody carries, the
// one that reads back from its key first.
func (w *world) addresses(p *ippool.Pool, a *ippool.Allocation) []netip.Addr {
	all := []netip.Addr{a.Address}
	for _, addr := range w.shared[p][a.Offset] {
		if addr != a.Address {
			all = append(all, addr)
		}
	}
	return all
}

// sameNetwork says whether a pool may be of a network, by name. A pool whose
// name says nothing may be of any.
func (w *world) sameNetwork(p *ippool.Pool, network string) bool {
	names := w.networks[p]
	return names == nil || slices.Contains(names, network)
}

// maps says whether a definition is of the pool.
func (w *world) maps(nad *ippool.NAD, p *ippool.Pool) bool {
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Maps(p, w.networks[p]) })
}

// dead says whether a node is proven dead by its Node object.
func (w *world) dead(node string) bool {
	n := w.Nodes[node]
	return n != nil && n.Dead()
}

// rebooted says whether the node runs another boot than at the time of the report.
func (w *world) rebooted(r *podstate.Report) bool {
	n := w.Nodes[r.Name]
	return n != nil && n.BootID != "" && r.BootID != "" && n.BootID != r.BootID
}

// lost says whether what a report says ended with its node: it is stale, and
// the node is dead or has booted anew since.
func (w *world) lost(r *podstate.Report) bool {
	return !r.Fresh(w.Now) && (w.dead(r.Name) || w.rebooted(r))
}

func (w *world) missing(node string) bool {
	return len(w.Nodes) > 0 && node != "" && w.Nodes[node] == nil
}

func (w *world) fresh(node string) bool {
	r := w.reports[node]
	return r != nil && r.Fresh(w.Now)
}

// notReady says whether a node is known not to be Ready.
func (w *world) notReady(node string) bool {
	n := w.Nodes[node]
	return n != nil && !n.Ready
}

func sortedUnique[T cmp.Ordered](in []T) []T {
	slices.Sort(in)
	return slices.Compact(in)
}
