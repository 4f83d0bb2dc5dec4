package findings

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

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
	*facts.Facts
	j     *judge.Judgement
	items map[*ippool.Allocation]*judge.Item // see itemOf; nil before it is needed
}

// findings are all findings on a judgement of everything that was observed, and where those are that are not listed.
func findings(j *judge.Judgement) ([]Finding, []findingPlace) {
	x, items := &finder{Facts: j.Facts(), j: j}, slices.Concat(j.Allocations, j.Reservations)
	found, uses := newFindingList(), x.overlapping(items)
	for addr := range x.CarriedAddresses() {
		found.add(x.conflictsAt(addr)...)
		found.add(x.wrongEntriesAt(addr)...)
	}
	for _, it := range items {
		if it.Allocation != nil && uses[it.Pool] {
			found.add(x.missingReservation(it)...)
		}
	}
	found.add(slices.Concat(x.phantoms(), x.nodesNotReady(items), x.unreadFindings(items), x.malformed(items),
		x.unsupportedRanges(), x.unknownDefinitions(), x.notAttached(), pendingLeaks(items), x.foreignPools(items),
		x.machineFindings(items), x.outsideDefinitions(items), x.slicesWithoutNode())...)
	found.add(x.nodesWithoutReport(items, found.silent)...)
	return found.finish()
}

// At are the findings that can be repaired: on entries for some addresses, and on missing reservations of
// others. All of them must have been judged. The cost grows with the number of addresses.
func At(j *judge.Judgement, entries, reservations []netip.Addr) (found []Finding) {
	x := &finder{Facts: j.Facts(), j: j}
	for _, addr := range facts.UniqueAddresses(slices.Clone(entries)) {
		found = append(found, x.wrongEntriesAt(addr)...)
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

// wrongEntriesAt are the findings on missing or wrong entries for an address.
func (x *finder) wrongEntriesAt(addr netip.Addr) []Finding {
	found := append(x.unrecordedAt(addr), x.misrecordedAt(addr)...)
	for i := range found {
		if r := found[i].Repair; r != nil {
			r.Overlapping = x.reserves(r)
		}
	}
	return found
}

// reserves reports whether the entry that a repair writes needs a reservation, too.
func (x *finder) reserves(r *Repair) bool {
	var nad *ippool.NAD
	for i := range x.SandboxesAt(r.Address) {
		if b := &x.SandboxesAt(r.Address)[i]; b.ID == r.ContainerID && b.IfName == r.IfName {
			nad = x.definitionOf(b, r.Address)
		}
	}
	p := x.PoolOrMissing(r.Pool.Ref())
	return p != nil && x.notReserving(p, r.Network, nad) == ""
}

func (x *finder) apiHasPod(g *facts.Mention) bool {
	p := x.Pod(g.Namespace, g.Name)
	return p != nil && (g.UID == "" || p.HasUID(g.UID))
}

// phantoms are the findings on running sandboxes whose pods the API does not have. On a silent node the pod may have
// been deleted since.
func (x *finder) phantoms() (found []Finding) {
	for _, r := range x.Reports() {
		for i := range r.Sandboxes {
			g := r.MentionOf(&r.Sandboxes[i])
			if x.wasReady(g) && r.IsSettled(g.Sandbox, x.Now()) && !x.apiHasPod(g) {
				found = append(found, x.phantom(g))
			}
		}
	}
	return found
}

func (x *finder) phantom(g *facts.Mention) Finding {
	var ips, pools, missing []string
	for _, a := range g.Addresses {
		addr, ok := podstate.ParseAddress(a)
		if !ok {
			continue
		}
		ips = append(ips, addr.String())
		recorded := false
		having := x.UnsupportedWith(g.ID, addr)
		for _, e := range x.EntriesFor(addr) {
			if e.ContainerID == g.ID {
				having = append(having, e.Pool)
			}
		}
		for _, p := range having {
			if p.IsOfNetwork(a.NetworkName) {
				recorded, pools = true, append(pools, p.Ref())
			}
		}
		if !recorded {
			missing = append(missing, addr.String())
		}
	}
	message := fmt.Sprintf("pod %s (UID %s) runs on %s, but the API does not have it", g.Pod(), g.UID, g.Report.Name)
	switch {
	case len(missing) > 0:
		message += "; no pool records its address " + strings.Join(missing, ", ") + ", so the next ADD may assign it again"
	case len(pools) > 0:
		message += "; its address is recorded and held"
	}
	f := Finding{Kind: Phantom, IP: strings.Join(ips, ","), Pool: strings.Join(facts.SortedUnique(pools), ","),
		Pods: []string{g.Pod()}, ContainerIDs: []string{g.ID}, Node: g.Report.Name, Message: message,
		Unheld: missing}
	x.asReported(&f, g.Report)
	return f
}

// countNodes counts for each node the allocations whose evidence names it.
func countNodes(items []*judge.Item, names func(*judge.Item) []string) map[string]int {
	type nodes struct {
		names []string
		items int
	}
	same := map[*string]*nodes{} // many share one list
	for _, it := range items {
		if it.Allocation == nil || it.Evidence() == nil {
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
func (x *finder) nodesWithoutReport(items []*judge.Item, others map[string]bool) []Finding {
	count := countNodes(items, func(it *judge.Item) []string {
		if it.Evidence().Sandbox != judge.NoFreshReport {
			return nil
		}
		return it.Evidence().WithoutReport
	})
	for name, state := range x.NodeStates() {
		r := x.Report(name)
		isRenewed := r != nil && !r.LeaseRenewedAt.IsZero() && x.Now().Sub(r.LeaseRenewedAt) <= facts.RenewalGrace
		if state == facts.NodeNoFreshReport && !isRenewed {
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
	switch r := x.Report(node); {
	case r != nil && r.ConfirmedAt.IsZero():
		text = node + " has no fresh SandboxReport"
	case r != nil:
		text = fmt.Sprintf("%s has had no fresh SandboxReport since %s", node, r.ConfirmedAt.UTC().Format(time.RFC3339))
	}
	if id := x.LosesNode(node); id != "" {
		text += " and has lost its Node object by the restore " + id +
			" of etcd (restart its kubelet, or acknowledge the restore if the machine is gone)"
	}
	if n := x.Node(node); n != nil && !n.Ready && !n.NotReadySince.IsZero() {
		text += fmt.Sprintf(" and has not been Ready since %s", n.NotReadySince.UTC().Format(time.RFC3339))
	}
	return text
}

// nodesNotReady are the findings on nodes that hold allocations, without agents, because they are not Ready.
func (x *finder) nodesNotReady(items []*judge.Item) []Finding {
	count := countNodes(items, func(it *judge.Item) []string {
		if it.Verdict != judge.Held || it.Reason != judge.NodeUnreachable {
			return nil
		}
		return it.Evidence().NotReady
	})
	var found []Finding
	for _, node := range slices.Sorted(maps.Keys(count)) {
		since, end := "since "+x.Node(node).NotReadySince.UTC().Format(time.RFC3339), "If its machine is off and stays "+
			"off, the out-of-service taint or deleting the Node releases them"
		switch n := x.Node(node); {
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

func (x *finder) malformed(items []*judge.Item) []Finding {
	var found []Finding
	for _, text := range x.Base().Unreadable {
		found = append(found, Finding{Kind: MalformedFinding, Message: text})
	}
	for _, p := range x.Pools() {
		if p.Problem != "" {
			found = append(found, Finding{Kind: MalformedFinding, Pool: p.Ref(), Message: "pool " + p.Ref() + ": " + p.Problem})
		}
	}
	for _, it := range items {
		if it.Reason == judge.Malformed && (it.Pool == nil || it.Pool.Problem == "") {
			found = append(found, malformedItem(it))
		}
	}
	return found
}

// unsupportedRanges are the findings on pools whose keys may mean several addresses, with or without allocations.
func (x *finder) unsupportedRanges() (found []Finding) {
	for _, p := range x.Pools() {
		if p.Problem == "" && p.Unsupported != "" {
			found = append(found, Finding{Kind: UnsupportedRangeFinding, Pool: p.Ref(), Message: fmt.Sprintf("pool %s is "+
				"neither judged nor repaired: its %s", p.Ref(), p.Unsupported)})
		}
	}
	return found
}

func malformedItem(it *judge.Item) Finding {
	f := Finding{Kind: MalformedFinding, IP: it.Text(), Message: "reservation " + it.Object() + ": " + it.Message()}
	if it.Allocation != nil {
		f.Pool, f.Message = it.Object(), fmt.Sprintf("pool %s, allocation %q: %s", it.Object(), it.Key(), it.Message())
	}
	if it.PodRef() != "" {
		f.Pods = []string{it.PodRef()}
	}
	return f
}
