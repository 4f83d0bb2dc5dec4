package reconciler

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// index is an observation as judging looks things up in it. It is built once,
// and then amended by what has changed, at a cost that grows with the change.
// It is used by one goroutine.
type index struct {
	hasher
	o      *Observation // its Pods and Reservations are those of before the amendments
	now    time.Time
	policy Policy
	rules  *rules
	inUse  bool // reports are in use

	nodeNames  map[string]bool      // for the names of node slices
	agentNodes []string             // see findAgentNodes
	agents     [2]*nodeSet          // the same, for allocations and for reservations; nil until it is asked for
	states     map[string]NodeState // when the index was built
	singles    map[singleNode]*nodeSet

	reports []*report // by name
	byNode  map[string]*report
	blocks  []*report // by the numbers of their entries, see addReport
	ids     lookup    // by container id: numbers of entries
	boxes   lookup    // by address: numbers of entries

	nads    map[string]*ippool.NAD // the readable ones, by "<namespace>/<name>"
	pools   []*pool                // by name
	ranges  map[netip.Prefix][]*pool
	lengths [2][]int // of those ranges, of IPv4 and of IPv6
	odd     []*pool  // those with ambiguous keys

	pods           []*podstate.Pod
	free           []uint32               // numbers that no pod has any more
	podsOn         map[string]int         // by node, where no Node object is known
	byName         lookup                 // numbers of pods
	carried        lookup                 // by address: numbers of pods
	young          map[*podstate.Pod]bool // with an address, and so new that its age matters
	names, claimed additions              // of pods that are being indexed
	touched        touched
	// loose are addresses that somebody carries without an entry, and shared
	// those that several carry: where a finding may be.
	loose, shared []netip.Addr

	named         map[networkName]bool // the networks of all pools
	reservations  []*ippool.Reservation
	byReservation lookup // numbers of reservations by name; empty before the first amendment
}

// report is a SandboxReport as of now.
type report struct {
	// What leads from a number to an entry is beside each other.
	first       uint32 // the number of its first entry
	fresh       bool
	sandboxes   []v1alpha1.Sandbox
	attachments []v1alpha1.Attachment
	*podstate.Report
	node []string // its name alone
}

// sighting is one mention of a container id in a report; one of the three is set.
type sighting struct {
	report *report
	number uint32
	box    *v1alpha1.Sandbox
	att    *v1alpha1.Attachment
	gone   *v1alpha1.Gone
}

func newIndex(o *Observation, policy Policy) *index {
	x := &index{
		hasher: newHasher(), o: o, now: o.Now, policy: policy, rules: newRules(),
		inUse: len(o.Reports) > 0 || o.ReportsUnreadable || policy.AgentsRequired || o.Past.sawReports(),
	}
	x.nameNodes()
	x.addPools()
	x.addReports()
	x.agentNodes, x.singles = x.findAgentNodes(), map[singleNode]*nodeSet{}
	x.addPods()
	x.reservations = o.Reservations
	x.states = x.nodeStates()
	return x
}

// blockSize is how many numbers go to one report at a time: a number so leads to
// its report without a search.
const blockSize = 64

func (x *index) addReports() {
	x.byNode = make(map[string]*report, len(x.o.Reports))
	ids, addresses := 0, 0
	for _, r := range x.o.Reports {
		ids += len(r.Sandboxes) + len(r.Attachments) + len(r.Gone)
		for i := range r.Sandboxes {
			addresses += len(r.Sandboxes[i].Addresses)
		}
		for i := range r.Attachments {
			addresses += len(r.Attachments[i].Addresses)
		}
	}
	x.ids, x.boxes = newLookup(ids), newLookup(addresses)
	var byID, byAddress additions
	for _, r := range x.o.Reports {
		x.touched.report(r)
		x.addReport(r, &byID, &byAddress)
	}
	slices.SortStableFunc(x.reports, func(a, b *report) int { return cmp.Compare(a.Name, b.Name) })
}

func (x *index) addReport(r *podstate.Report, byID, byAddress *additions) {
	rep := &report{Report: r, fresh: r.Fresh(x.now), first: uint32(len(x.blocks) * blockSize), node: []string{r.Name},
		sandboxes: r.Sandboxes, attachments: r.Attachments}
	x.reports = append(x.reports, rep)
	x.byNode[r.Name] = rep
	number := rep.first
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		x.sight(number, b.ID, b.Addresses, b.State == v1alpha1.SandboxReady, byID, byAddress)
		number++
	}
	for i := range r.Attachments {
		x.sight(number, r.Attachments[i].ID, r.Attachments[i].Addresses, false, byID, byAddress)
		number++
	}
	for i := range r.Gone {
		x.sight(number, r.Gone[i].ID, nil, false, byID, byAddress)
		number++
	}
	x.ids.addAll(byID, &x.touched, func(int) {})
	x.boxes.addAll(byAddress, &x.touched, func(i int) { x.shared = append(x.shared, byAddress.addresses[i]) })
	for ; len(x.blocks)*blockSize < int(number); x.blocks = append(x.blocks, rep) {
	}
}

func (x *index) sight(number uint32, id string, addresses []v1alpha1.Address, ready bool, byID, byAddress *additions) {
	if id != "" {
		byID.add(x.text(id), number)
	}
	for i := range addresses {
		a := &addresses[i]
		addr, ok := podstate.ParseAddress(*a)
		if !ok {
			continue
		}
		byAddress.add(x.address(addr), number)
		byAddress.addresses = append(byAddress.addresses, addr)
		if ready && slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.lacks(addr) && p.of(a.NetworkName) }) {
			x.loose = append(x.loose, addr)
		}
		for _, p := range x.odd {
			p.carry(addr)
		}
	}
}

// entry is the entry of a report with this number.
func (x *index) entry(number uint32) sighting {
	r := x.blocks[number/blockSize]
	s := sighting{report: r, number: number}
	switch i := int(number - r.first); {
	case i < len(r.sandboxes):
		s.box = &r.sandboxes[i]
	case i < len(r.sandboxes)+len(r.attachments):
		s.att = &r.attachments[i-len(r.sandboxes)]
	default:
		s.gone = &r.Gone[i-len(r.sandboxes)-len(r.attachments)]
	}
	return s
}

// sightings adds the mentions of a container id, by the names of the reports.
func (x *index) sightings(into []sighting, id string) []sighting {
	return x.sightingsOf(into, id, x.text(id))
}

func (x *index) sightingsOf(into []sighting, id string, hash uint64) []sighting {
	if id == "" {
		return into
	}
	for c := x.ids.find(hash); ; {
		number, ok := c.next()
		if !ok {
			break
		}
		if s := x.entry(number); s.containerID() == id {
			into = append(into, s)
		}
	}
	if len(into) > 1 {
		slices.SortStableFunc(into, bySighting)
	}
	return into
}

// bySighting orders by node, then sandboxes before attachments before what is
// gone: the order in which reports are read must not decide.
func bySighting(a, b sighting) int {
	kind := func(s *sighting) int {
		switch {
		case s.box != nil:
			return 0
		case s.att != nil:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(a.report.Name, b.report.Name), cmp.Compare(kind(&a), kind(&b)))
}

// boxesAt are the sandboxes and attachments that a report gives an address, each
// once for each of its mentions, with the mention.
func (x *index) boxesAt(addr netip.Addr) []boxAddress {
	var found []boxAddress
	for _, number := range x.boxes.all(x.address(addr)) {
		s := x.entry(number)
		for _, a := range s.addresses() {
			if ip, ok := podstate.ParseAddress(a); ok && ip == addr {
				found = append(found, boxAddress{s, a})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b boxAddress) int { return bySighting(a.sighting, b.sighting) })
	return found
}

// boxAddress is an address that a report says is configured in a sandbox.
type boxAddress struct {
	sighting
	v1alpha1.Address
}

func (g *sighting) addresses() []v1alpha1.Address {
	switch {
	case g.box != nil:
		return g.box.Addresses
	case g.att != nil:
		return g.att.Addresses
	}
	return nil
}

// nameNodes collects the names that a node slice's pool may carry: those of the
// Node objects; without any, those in reports and pods.
func (x *index) nameNodes() {
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

// podAddress is an address in the network-status of a pod that is not finished.
type podAddress struct {
	pod   *podstate.Pod
	iface *podstate.Interface
	nad   *ippool.NAD // nil: it cannot be read
}

func (x *index) addPods() {
	x.pods = make([]*podstate.Pod, 0, len(x.o.Pods))
	x.byName, x.carried = newLookup(len(x.o.Pods)), newLookup(len(x.o.Pods))
	x.young, x.podsOn = map[*podstate.Pod]bool{}, map[string]int{}
	for _, p := range x.o.Pods {
		x.pods = append(x.pods, p)
	}
	number := uint32(0)
	for pods := range slices.Chunk(x.pods, chunk) {
		x.touched.pods(pods)
		for _, p := range pods {
			x.indexPod(number, p)
			number++
		}
		x.flushPods()
	}
}

// flushPods puts what was indexed of pods where it is looked up.
func (x *index) flushPods() {
	x.byName.addAll(&x.names, &x.touched, func(int) {})
	x.carried.addAll(&x.claimed, &x.touched, func(i int) { x.shared = append(x.shared, x.claimed.addresses[i]) })
}

// addPod reports whether the pod is on a node whose name was not known, where
// that matters.
func (x *index) addPod(p *podstate.Pod) (newNode bool) {
	number := uint32(len(x.pods))
	if last := len(x.free) - 1; last >= 0 {
		number, x.free = x.free[last], x.free[:last]
		x.pods[number] = p
	} else {
		x.pods = append(x.pods, p)
	}
	newNode = x.indexPod(number, p)
	x.flushPods()
	return newNode
}

func (x *index) indexPod(number uint32, p *podstate.Pod) (newNode bool) {
	x.names.add(x.name(p.Namespace, p.Name), number)
	x.claims(p, func(addr netip.Addr, nad *ippool.NAD) {
		x.claimed.add(x.address(addr), number)
		x.claimed.addresses = append(x.claimed.addresses, addr)
		if nad != nil && p.Phase == podstate.Live &&
			slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.lacks(addr) && p.mapped(nad) }) {
			x.loose = append(x.loose, addr)
		}
		for _, o := range x.odd {
			o.carry(addr)
		}
	})
	if x.ages(p) {
		x.young[p] = true
	}
	return x.joins(p.Node)
}

// joins and leaves count the pods by node where no Node object is known: their
// nodes are then all the nodes there are. They report whether those change.
func (x *index) joins(node string) bool {
	if len(x.o.Nodes) > 0 || node == "" {
		return false
	}
	x.podsOn[node]++
	return !x.nodeNames[node]
}

func (x *index) leaves(node string) bool {
	if len(x.o.Nodes) > 0 || node == "" {
		return false
	}
	x.podsOn[node]--
	return x.podsOn[node] == 0 && x.byNode[node] == nil
}

// ages reports whether a pod with an address is so new that its age will matter.
func (x *index) ages(p *podstate.Pod) bool {
	return x.now.Sub(p.Created) <= recentFor &&
		slices.ContainsFunc(p.Interfaces, func(i podstate.Interface) bool { return len(i.Addresses) > 0 })
}

// claims calls f for the addresses of a pod that may matter to a pool or to
// another pod: those of a network of whereabouts, and where the network is not
// known, those in a pool's range.
func (x *index) claims(p *podstate.Pod, f func(netip.Addr, *ippool.NAD)) {
	for i := range p.Interfaces {
		iface := &p.Interfaces[i]
		nad := x.nads[iface.Network]
		if nad != nil && len(nad.Networks) == 0 {
			continue
		}
		for _, addr := range iface.Addresses {
			if nad != nil || x.inRange(addr) {
				f(addr, nad)
			}
		}
	}
}

// pod is the pod by that name, nil if there is none.
func (x *index) pod(namespace, name string) *podstate.Pod {
	if number, ok := x.podNumber(namespace, name, x.name(namespace, name)); ok {
		return x.pods[number]
	}
	return nil
}

// owner is the pod by an owner's name. What a repair wrote for a phantom names a
// pod that is known to be none.
func (x *index) owner(owner ippool.PodRef) *podstate.Pod {
	return x.ownerPod(owner, x.name(owner.Namespace, owner.Name))
}

func (x *index) ownerPod(owner ippool.PodRef, hash uint64) *podstate.Pod {
	if number, ok := x.podNumber(owner.Namespace, owner.Name, hash); ok && owner.UID == "" {
		return x.pods[number]
	}
	return nil
}

func (x *index) podNumber(namespace, name string, hash uint64) (uint32, bool) {
	for c := x.byName.find(hash); ; {
		number, ok := c.next()
		if !ok {
			return 0, false
		}
		if p := x.pods[number]; p.Name == name && p.Namespace == namespace {
			return number, true
		}
	}
}

// podsAt are the pods that carry an address, by name.
func (x *index) podsAt(addr netip.Addr) []podAddress {
	var found []podAddress
	for _, number := range x.carried.all(x.address(addr)) {
		p := x.pods[number]
		for i := range p.Interfaces {
			iface := &p.Interfaces[i]
			for range occurrences(iface.Addresses, addr) {
				found = append(found, podAddress{p, iface, x.nads[iface.Network]})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b podAddress) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return found
}

func occurrences(all []netip.Addr, addr netip.Addr) (n int) {
	for _, a := range all {
		if a == addr {
			n++
		}
	}
	return n
}

// dead reports whether a node is proven dead by its Node object.
func (x *index) dead(node string) bool {
	n := x.o.Nodes[node]
	return n != nil && n.Dead()
}

// rebooted reports whether the node runs another boot than at the time of the report.
func (x *index) rebooted(r *report) bool {
	n := x.o.Nodes[r.Name]
	return n != nil && n.BootID != "" && r.BootID != "" && n.BootID != r.BootID
}

// lost reports whether what a report says ended with its node: it is stale, and
// the node is dead or has booted anew since.
func (x *index) lost(r *report) bool {
	return !r.fresh && (x.dead(r.Name) || x.rebooted(r))
}

func (x *index) missing(node string) bool {
	return len(x.o.Nodes) > 0 && node != "" && x.o.Nodes[node] == nil
}

func (x *index) heard(node string) bool {
	r := x.byNode[node]
	return r != nil && r.fresh
}

// notReady reports whether a node is known not to be Ready.
func (x *index) notReady(node string) bool {
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
