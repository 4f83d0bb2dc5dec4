package judge

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Kind is the kind of a finding.
type Kind string

const (
	Phantom              Kind = "Phantom"
	Conflict             Kind = "Conflict"
	Unrecorded           Kind = "Unrecorded"
	Misrecorded          Kind = "Misrecorded"
	MissingReservation   Kind = "MissingReservation"
	NoFreshReportFinding Kind = "NoFreshReport"
	NodeNotReady         Kind = "NodeNotReady"
	UnreadSandbox        Kind = "UnreadSandbox"
	MalformedFinding     Kind = "Malformed"
	StatusMismatch       Kind = "StatusMismatch"
	NotAttached          Kind = "NotAttached"
	PendingLeak          Kind = "PendingLeak"
	ForeignPool          Kind = "ForeignPool"
	ClaimDiffers         Kind = "ClaimDiffers"
	GuestAddressFinding  Kind = "GuestAddress"

	UnsupportedRangeFinding Kind = "UnsupportedRange"
)

// Kinds are all kinds by severity: outages first. The last is information only.
func Kinds() []Kind {
	return []Kind{Conflict, Unrecorded, Misrecorded, Phantom, GuestAddressFinding, ClaimDiffers, MissingReservation,
		NotAttached, PendingLeak, UnreadSandbox, ForeignPool, UnsupportedRangeFinding, MalformedFinding,
		NoFreshReportFinding, NodeNotReady, StatusMismatch}
}

// Is reports whether two findings are about the same defect.
func (f Finding) Is(g Finding) bool {
	return f.Kind == g.Kind && f.IP == g.IP && f.Pool == g.Pool && f.Node == g.Node &&
		slices.Equal(f.Pods, g.Pods) && slices.Equal(f.ContainerIDs, g.ContainerIDs)
}

// Finding is a defect that is not a verdict.
type Finding struct {
	Kind         Kind
	IP           string
	Pool         string
	Pods         []string
	ContainerIDs []string
	Node         string
	Message      string
	// ReportedAt is when a report that has expired since said so, in RFC 3339; absent if all reports are fresh.
	ReportedAt string

	// NetworkUnknown is true for a Conflict only if the network of a pod, which is unknown, is that of the others.
	NetworkUnknown bool
	// Holds is how many allocations depend on the node of a NoFreshReport or NodeNotReady.
	Holds int
	// Unheld are the addresses of a Phantom that no pool records.
	Unheld []string

	Repair   *Repair  // what --repair would write; nil for nothing
	silent   []string // the nodes of the expired reports
	nodes    []string // of its pods and sandboxes, "" for an unknown one, where Node is empty; empty if they are unknown
	more     bool     // it is about more pods or sandboxes than it names
	unlisted int      // how many findings it stands for; zero for one
}

// CanRepair reports whether --repair would repair the defect.
func (f Finding) CanRepair() bool { return f.Repair != nil }

// finder looks for findings in what was indexed and judged.
type finder struct {
	*Index
	j     *Judgement
	items map[*ippool.Allocation]*Item // see itemOf; nil before it is needed
}

// findings are all findings on a judgement of everything that was observed, and where those are that are not listed.
func findings(j *Judgement) ([]Finding, []findingPlace) {
	x, items := &finder{Index: j.x, j: j}, slices.Concat(j.Allocations, j.Reservations)
	found, uses := newFindingList(), x.overlapping(items)
	for addr := range x.sandboxesByAddress {
		found.add(x.conflictsAt(addr)...)
		found.add(x.wrongEntriesAt(addr, uses)...)
	}
	for addr := range x.podsByAddress {
		if x.sandboxesByAddress[addr] == nil {
			found.add(x.conflictsAt(addr)...)
			found.add(x.wrongEntriesAt(addr, uses)...)
		}
	}
	for _, it := range items {
		if it.Allocation != nil && uses[it.Pool] {
			found.add(x.missingReservation(it)...)
		}
	}
	found.add(slices.Concat(x.phantoms(), x.nodesNotReady(items), x.unreadFindings(items), x.malformed(items),
		x.unsupportedRanges(), x.unknownDefinitions(), x.notAttached(), pendingLeaks(items), foreignPools(items),
		x.machineFindings(items))...)
	found.add(x.nodesWithoutReport(items, found.silent)...)
	return found.finish()
}

// FindingsAt are the findings that can be repaired: on entries for some addresses, and on missing reservations of
// others. All of them must have been judged. The cost grows with the number of addresses.
func FindingsAt(j *Judgement, entries, reservations []netip.Addr) (found []Finding) {
	x := &finder{Index: j.x, j: j}
	for _, addr := range uniqueAddresses(slices.Clone(entries)) {
		found = append(found, x.wrongEntriesAt(addr, nil)...)
	}
	mayLack := make(map[netip.Addr]bool, len(reservations))
	for _, addr := range reservations {
		mayLack[addr] = true
	}
	for _, it := range j.Allocations {
		if mayLack[it.Address()] {
			found = append(found, x.missingReservation(it)...)
		}
	}
	return found
}

// wrongEntriesAt are the findings on missing or wrong entries for an address. uses are the pools whose networks use
// overlapping ranges.
func (x *finder) wrongEntriesAt(addr netip.Addr, uses map[*ippool.Pool]bool) []Finding {
	found := append(x.unrecordedAt(addr), x.misrecordedAt(addr)...)
	for i := range found {
		if r := found[i].Repair; r != nil {
			r.Overlapping = uses[r.Pool] || r.NewPool && x.usesOverlaps(definedRange{r.Network, r.Pool.Range.Prefix()})
		}
	}
	return found
}

func (x *finder) apiHasPod(g *mention) bool {
	p := x.pod(g.Namespace, g.Name)
	return p != nil && (g.UID == "" || p.HasUID(g.UID))
}

// phantoms are the findings on running sandboxes whose pods the API does not have. On a silent node the pod may have
// been deleted since.
func (x *finder) phantoms() (found []Finding) {
	for _, r := range x.reports {
		for i := range r.Sandboxes {
			g := &mention{r, ofSandbox, &r.Sandboxes[i]}
			if x.wasReady(g) && r.IsSettled(g.Sandbox, x.now) && !x.apiHasPod(g) {
				found = append(found, x.phantom(g))
			}
		}
	}
	return found
}

func (x *finder) phantom(g *mention) Finding {
	var ips, pools, missing []string
	for _, a := range g.Addresses {
		addr, ok := podstate.ParseAddress(a)
		if !ok {
			continue
		}
		ips = append(ips, addr.String())
		recorded := false
		having := x.unsupportedWith(g.ID, addr)
		for _, e := range x.entriesFor(addr) {
			if e.ContainerID == g.ID {
				having = append(having, e.pool)
			}
		}
		for _, p := range having {
			if p.isOfNetwork(a.NetworkName) {
				recorded, pools = true, append(pools, p.ref)
			}
		}
		if !recorded {
			missing = append(missing, addr.String())
		}
	}
	message := fmt.Sprintf("pod %s (UID %s) runs on %s, but the API does not have it", g.pod(), g.UID, g.report.Name)
	switch {
	case len(missing) > 0:
		message += "; no pool records its address " + strings.Join(missing, ", ") + ", so the next ADD may assign it again"
	case len(pools) > 0:
		message += "; its address is recorded and held"
	}
	f := Finding{Kind: Phantom, IP: strings.Join(ips, ","), Pool: strings.Join(sortedUnique(pools), ","),
		Pods: []string{g.pod()}, ContainerIDs: []string{g.ID}, Node: g.report.Name, Message: message,
		Unheld: missing}
	x.asReported(&f, g.report)
	return f
}

// countNodes counts for each node the allocations whose evidence names it.
func countNodes(items []*Item, names func(*Item) []string) map[string]int {
	type nodes struct {
		names []string
		items int
	}
	same := map[*string]*nodes{} // many share one list
	for _, it := range items {
		if it.Allocation == nil || it.evidence == nil {
			continue
		}
		if names := names(it); len(names) > 0 {
			if same[&names[0]] == nil {
				same[&names[0]] = &nodes{names: names}
			}
			same[&names[0]].items++
		}
	}
	count := map[string]int{}
	for _, n := range same {
		for _, name := range n.names {
			count[name] += n.items
		}
	}
	return count
}

// nodesWithoutReport are the findings on nodes without a fresh report: those that hold allocations, those on whose last
// report other findings rest, and all others that should report. A Lease that was renewed lately may confirm the next
// content of a report.
func (x *finder) nodesWithoutReport(items []*Item, others map[string]bool) []Finding {
	count := countNodes(items, func(it *Item) []string {
		if it.evidence.Sandbox != NoFreshReport {
			return nil
		}
		return it.evidence.WithoutReport
	})
	for name, state := range x.states {
		r := x.byNode[name]
		isRenewed := r != nil && !r.LeaseRenewedAt.IsZero() && x.now.Sub(r.LeaseRenewedAt) <= renewalGrace
		if state == NodeNoFreshReport && !isRenewed {
			count[name] += 0
		}
	}
	for name := range others {
		count[name] += 0
	}
	var found []Finding
	for _, node := range slices.Sorted(maps.Keys(count)) {
		message := fmt.Sprintf("%s, and %d allocations depend on it; check its node agent", x.silence(node), count[node])
		switch count[node] {
		case 0:
			message = x.silence(node) + ", so what it runs may have changed; check its node agent"
		case 1:
			message = x.silence(node) + ", and 1 allocation depends on it; check its node agent"
		}
		found = append(found, Finding{Kind: NoFreshReportFinding, Node: node, Message: message, Holds: count[node]})
	}
	return found
}

// silence says since when a node has had no fresh report, and whether it is Ready.
func (x *finder) silence(node string) string {
	text := node + " has no SandboxReport"
	switch r := x.byNode[node]; {
	case r != nil && r.ConfirmedAt.IsZero():
		text = node + " has no fresh SandboxReport"
	case r != nil:
		text = fmt.Sprintf("%s has had no fresh SandboxReport since %s", node, r.ConfirmedAt.UTC().Format(time.RFC3339))
	}
	if n := x.nodes[node]; n != nil && !n.Ready && !n.NotReadySince.IsZero() {
		text += fmt.Sprintf(" and has not been Ready since %s", n.NotReadySince.UTC().Format(time.RFC3339))
	}
	return text
}

// nodesNotReady are the findings on nodes that hold allocations, without agents, because they are not Ready.
func (x *finder) nodesNotReady(items []*Item) []Finding {
	count := countNodes(items, func(it *Item) []string {
		if it.Verdict != Held || it.Reason != NodeUnreachable {
			return nil
		}
		return it.evidence.NotReady
	})
	var found []Finding
	for _, node := range slices.Sorted(maps.Keys(count)) {
		since, end := "since "+x.nodes[node].NotReadySince.UTC().Format(time.RFC3339), "If its machine is off and stays "+
			"off, the out-of-service taint or deleting the Node releases them"
		switch n := x.nodes[node]; {
		case !n.HasReadyCondition:
			since, end = "since an unknown time, because its Node has no condition Ready", "If its machine is off and stays "+
				"off, deleting the Node releases them, and an out-of-service taint does not"
		case n.NotReadySince.IsZero():
			since = "since an unknown time"
		}
		message := fmt.Sprintf("%s has not been Ready %s, so the allocations of pods that may still run there are held: %d. "+
			"%s; if it runs, that assigns addresses twice", node, since, count[node], end)
		found = append(found, Finding{Kind: NodeNotReady, Node: node, Message: message, Holds: count[node]})
	}
	return found
}

func (x *finder) malformed(items []*Item) []Finding {
	var found []Finding
	for _, text := range x.o.Unreadable {
		found = append(found, Finding{Kind: MalformedFinding, Message: text})
	}
	for _, p := range x.pools {
		if p.Problem != "" {
			found = append(found, Finding{Kind: MalformedFinding, Pool: p.ref, Message: "pool " + p.ref + ": " + p.Problem})
		}
	}
	for _, it := range items {
		if it.Reason == Malformed && (it.Pool == nil || it.Pool.Problem == "") {
			found = append(found, it.malformed())
		}
	}
	return found
}

// unsupportedRanges are the findings on pools whose keys may mean several addresses, with or without allocations.
func (x *finder) unsupportedRanges() (found []Finding) {
	for _, p := range x.pools {
		if p.Problem == "" && p.Unsupported != "" {
			found = append(found, Finding{Kind: UnsupportedRangeFinding, Pool: p.ref, Message: fmt.Sprintf("pool %s is "+
				"neither judged nor repaired: its %s", p.ref, p.Unsupported)})
		}
	}
	return found
}

func (it *Item) malformed() Finding {
	f := Finding{Kind: MalformedFinding, IP: it.Text(), Message: "reservation " + it.Object() + ": " + it.Message()}
	if it.Allocation != nil {
		f.Pool, f.Message = it.Object(), fmt.Sprintf("pool %s, allocation %q: %s", it.Object(), it.Key(), it.Message())
	}
	if it.PodRef() != "" {
		f.Pods = []string{it.PodRef()}
	}
	return f
}

// networkPool is a network on which an address is carried. Isolated networks of one name differ by their pool.
type networkPool struct{ network, pool string }

func networkPoolOf(network string, from []*pool) networkPool {
	if len(from) != 1 {
		return networkPool{network: network}
	}
	return networkPool{network, from[0].ref}
}

// joinUnknown joins all carriers on networks of one name, unless the isolated network of each is known.
func joinUnknown[T any](carriers map[networkPool][]T) {
	for _, at := range inOrder(carriers) {
		unknown := networkPool{network: at.network}
		if all, there := carriers[unknown]; there && at != unknown {
			carriers[unknown] = append(all, carriers[at]...)
			delete(carriers, at)
		}
	}
}

// inOrder are the keys in a stable order, so that the same observation always gives the same messages.
func inOrder[T any](carriers map[networkPool][]T) []networkPool {
	return slices.SortedFunc(maps.Keys(carriers), func(a, b networkPool) int {
		return cmp.Or(cmp.Compare(a.network, b.network), cmp.Compare(a.pool, b.pool))
	})
}

// conflictsAt are the findings on networks in which two pods, or two sandboxes, carry an address, and on pods of which
// only the network-status names the address.
func (x *finder) conflictsAt(addr netip.Addr) []Finding {
	var found []Finding
	configured, named := x.sandboxesByAddress[addr], x.podsNaming(addr)
	if len(configured) < 2 && len(named) < 2 {
		return nil
	}
	pods, sandboxes := map[networkPool][]string{}, map[networkPool][]mention{}
	carried, refuted := map[string][]string{}, map[string][]string{}
	var unknown []podAddress // on networks that are unknown
	isRenamed := false       // a network: its carriers count for both names
	running := x.runningAt(addr)
	for _, c := range named {
		if x.hasStopped(c.pod) { // its network-status stays until it is deleted, and is no mismatch
			continue
		}
		isRefuted := x.isRefutedAt(c.pod, running)
		if c.nad == nil {
			if _, isNamed := x.unknownDefinition(c); isNamed && !isRefuted && !x.isReported(c.pod) {
				unknown = append(unknown, c)
			}
			continue
		}
		for _, n := range c.nad.Networks {
			if at := networkPoolOf(n.Name, x.isolatedOfPod(addr, c)); isRefuted {
				refuted[n.Name] = append(refuted[n.Name], c.pod.String())
			} else if !x.isReported(c.pod) {
				pods[at] = append(pods[at], c.pod.String())
				carried[n.Name] = append(carried[n.Name], c.pod.String())
			}
		}
	}
	for _, b := range configured {
		if x.wasReady(&b.mention) && !x.isOvertaken(&b) {
			names := x.networksOfSandbox(&b, addr)
			isRenamed = isRenamed || len(names) > 1
			for _, network := range names {
				at := networkPoolOf(network, x.isolatedOfSandbox(addr, &b))
				sandboxes[at] = append(sandboxes[at], b.mention)
				carried[network] = append(carried[network], b.pod())
				if pod := x.podOf(&b.mention); pod != nil && x.isReported(pod) {
					pods[at] = append(pods[at], pod.String())
				}
			}
		}
	}
	joinUnknown(pods)
	joinUnknown(sandboxes)
	sets := carrierSets{}
	for at, names := range pods {
		if names = sortedUnique(names); len(names) > 1 && !podstate.AreOneMigration(x.podsByRef(names)) {
			sets.add(carriers{pods: names}, x.poolNameOf(addr, at.network))
		}
	}
	for _, at := range inOrder(sandboxes) {
		var c carriers
		var owners []*podstate.Pod
		isListed := map[string]bool{}
		for _, g := range sandboxes[at] {
			if !isListed[g.ID] {
				isListed[g.ID] = true
				c.ids, c.pods = append(c.ids, g.ID), append(c.pods, g.pod())
				owners = append(owners, x.podOf(&g))
				c.where, c.reports = append(c.where, g.pod()+" on "+g.report.Name), append(c.reports, g.report)
			}
		}
		if len(c.ids) > 1 && !podstate.AreOneMigration(owners) {
			c.pods = sortedUnique(c.pods)
			sets.add(c, x.poolNameOf(addr, at.network))
		}
	}
	for _, c := range sets {
		f := Finding{Kind: Conflict, IP: addr.String(), Pool: c.pool(), Pods: c.pods, ContainerIDs: c.ids}
		if isRenamed { // the networks are two names of one
			f.Pool, _, _ = strings.Cut(f.Pool, ",")
		}
		if len(c.ids) == 0 {
			f.Message, f.nodes = fmt.Sprintf("%s is carried by %s", addr, andOthers(c.pods)), x.nodesOf(c.pods)
		} else {
			f.Message = fmt.Sprintf("%s is in use in two running sandboxes: %s", addr, andOthers(c.where))
			x.asReported(&f, c.reports...)
			for _, r := range c.reports {
				f.nodes = append(f.nodes, r.Name)
			}
		}
		found = append(found, f)
	}
	found = append(found, x.unknownConflict(addr, unknown, carried)...)
	return append(found, x.statusMismatches(addr, refuted, carried)...)
}

// networksOfSandbox are the network of a sandbox's address by its CNI cache and, if its definition was edited to
// another network_name since, the network of today.
func (x *finder) networksOfSandbox(b *sandboxAddress, addr netip.Addr) []string {
	names := []string{b.NetworkName}
	if len(x.sandboxesByAddress[addr])+len(x.podsNaming(addr)) < 2 {
		return names
	}
	for _, at := range x.carriageOf(b, addr).own {
		if !slices.Contains(names, at.network) {
			names = append(names, at.network)
		}
	}
	return names
}

// statusMismatches are the findings on pods whose network-status names an address that others name or carry, and that
// the pods do not have by their nodes' reports.
func (x *finder) statusMismatches(addr netip.Addr, refuted, carried map[string][]string) (found []Finding) {
	sets := carrierSets{}
	for network, pods := range refuted {
		pods, others := sortedUnique(pods), sortedUnique(carried[network])
		if len(sortedUnique(slices.Concat(pods, others))) > 1 {
			sets.add(carriers{pods: pods, others: others}, x.poolNameOf(addr, network))
		}
	}
	for _, c := range sets {
		found = append(found, Finding{Kind: StatusMismatch, IP: addr.String(), Pool: c.pool(), Pods: c.pods,
			nodes: x.nodesOf(slices.Concat(c.pods, c.others)),
			Message: fmt.Sprintf("the network-status of %s names %s, but a fresh SandboxReport shows that the pod does not "+
				"have it; carried by %s", andOthers(c.pods), addr, cmp.Or(andOthers(c.others), "no pod"))})
	}
	return found
}

// poolNameOf names the pool that has, or should have, an address of a network; "" for none.
func (x *finder) poolNameOf(addr netip.Addr, network string) string {
	for _, p := range x.poolsAt(addr) {
		if p.isOfNetwork(network) {
			return p.ref
		}
	}
	first := ""
	for _, at := range x.definedAt(network, addr) {
		if p := x.missingPool(at); p != nil && (first == "" || p.ref < first) {
			first = p.ref
		}
	}
	return first
}
