package judge

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Kind names a finding.
type Kind string

const (
	Phantom              Kind = "Phantom"
	Conflict             Kind = "Conflict"
	Unrecorded           Kind = "Unrecorded"
	Misrecorded          Kind = "Misrecorded"
	MissingReservation   Kind = "MissingReservation"
	NoFreshReportFinding Kind = "NoFreshReport"
	UnreadSandbox        Kind = "UnreadSandbox"
	MalformedFinding     Kind = "Malformed"
	StatusMismatch       Kind = "StatusMismatch"
)

// Kinds are all of them, what is or may become an outage first. The last is information only.
func Kinds() []Kind {
	return []Kind{Conflict, Unrecorded, Misrecorded, Phantom, MissingReservation, UnreadSandbox, MalformedFinding, NoFreshReportFinding, StatusMismatch}
}

// Is reports whether two findings, maybe of different passes, are about the same.
func (f Finding) Is(g Finding) bool {
	return f.Kind == g.Kind && f.IP == g.IP && f.Pool == g.Pool && f.Node == g.Node && slices.Equal(f.Pods, g.Pods) && slices.Equal(f.ContainerIDs, g.ContainerIDs)
}

// Finding is something wrong beside the verdicts. The JSON names are a contract.
type Finding struct {
	Kind         Kind     `json:"kind"`
	IP           string   `json:"ip"`
	Pool         string   `json:"pool"`
	Pods         []string `json:"pods"`
	ContainerIDs []string `json:"containerIDs"`
	Node         string   `json:"node"`
	Message      string   `json:"message"`

	// Repair is what --repair would write; nil for nothing.
	Repair *Repair `json:"-"`
}

// CanRepair reports whether --repair would repair it.
func (f Finding) CanRepair() bool { return f.Repair != nil }

// findings are all that is wrong beside the verdicts of items, which are all that there are.
func (x *Index) findings(items []*Item) []Finding {
	entries := append(x.unrecorded(), x.misrecorded(items)...) // first: it finds the pools that are missing
	uses := x.overlapping(items)
	for i := range entries {
		if r := entries[i].Repair; r != nil {
			r.Overlapping = uses[r.Pool]
		}
	}
	found := slices.Concat(x.phantoms(), x.conflicts(), entries, x.missingReservations(items, uses), nodesWithoutReport(items), x.unreadSandboxes(), x.malformed(items))
	for i := range found {
		f := &found[i]
		f.Pods, f.ContainerIDs = append([]string{}, f.Pods...), append([]string{}, f.ContainerIDs...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Message, b.Message))
	})
	return found
}

// FindingsAt are the findings that can be repaired: of entries at some addresses, and of
// missing reservations at others. The cost grows with the addresses.
func (x *Index) FindingsAt(entries, reservations []netip.Addr) []Finding {
	var found []Finding
	for _, addr := range uniqueAddresses(entries) {
		found = append(append(found, x.unrecordedAt(addr)...), x.misrecordedAt(addr)...)
	}
	for _, it := range x.JudgeAddresses(reservations).Allocations {
		found = append(found, x.missingReservation(it)...)
	}
	return found
}

func uniqueAddresses(in []netip.Addr) []netip.Addr {
	slices.SortFunc(in, netip.Addr.Compare)
	return slices.Compact(in)
}

// apiHasPod reports whether the API has the sandbox's pod.
func (x *Index) apiHasPod(g *reportEntry) bool {
	p := x.pod(g.pod())
	return p != nil && (g.uid() == "" || p.Has(g.uid()))
}

// isReady reports whether a fresh report has the reportEntry as a READY sandbox.
func (x *Index) isReady(g *reportEntry) bool {
	return x.isFresh(g.report) && g.sandbox != nil && g.sandbox.State == v1alpha1.SandboxReady
}

func (x *Index) phantoms() []Finding {
	var found []Finding
	for _, r := range x.reports {
		for i := range r.Sandboxes {
			g := reportEntry{report: r, sandbox: &r.Sandboxes[i]}
			if x.isReady(&g) && r.Settled(g.sandbox, x.now) && !x.apiHasPod(&g) {
				found = append(found, x.phantom(&g))
			}
		}
	}
	return found
}

func (x *Index) phantom(g *reportEntry) Finding {
	pod := g.sandbox.Namespace + "/" + g.sandbox.Name
	var ips, pools, missing []string
	for _, a := range g.sandbox.Addresses {
		addr, ok := podstate.ParseAddress(a)
		if !ok {
			continue
		}
		ips = append(ips, addr.String())
		recorded := false
		for _, e := range x.entriesFor(nil, addr) {
			if e.ContainerID == g.sandbox.ID && e.pool.isOfNetwork(a.NetworkName) {
				recorded, pools = true, append(pools, e.pool.ref)
			}
		}
		if !recorded {
			missing = append(missing, addr.String())
		}
	}
	message := fmt.Sprintf("pod %s (UID %s) runs on %s and the API does not know it", pod, g.sandbox.UID, g.report.Name)
	switch {
	case len(missing) > 0:
		message += "; no pool records its " + strings.Join(missing, ", ") + ": the next ADD may hand it out again"
	case len(pools) > 0:
		message += "; its address is recorded and held"
	}
	return Finding{Kind: Phantom, IP: strings.Join(ips, ","), Pool: strings.Join(sortedUnique(pools), ","),
		Pods: []string{pod}, ContainerIDs: []string{g.sandbox.ID}, Node: g.report.Name, Message: message}
}

// conflicts are the findings at all addresses that several pods, or several sandboxes, carry.
func (x *Index) conflicts() (found []Finding) {
	var shared []netip.Addr
	for addr, carriers := range x.sandboxesByAddress {
		if len(carriers) > 1 {
			shared = append(shared, addr)
		}
	}
	for addr, carriers := range x.podsByAddress {
		if len(carriers) > 1 {
			shared = append(shared, addr)
		}
	}
	for _, addr := range uniqueAddresses(shared) {
		found = append(found, x.conflictsAt(addr)...)
	}
	return found
}

// conflictsAt are the networks in which two pods, or two sandboxes, carry an
// address, and the pods of which only the network-status names the address.
func (x *Index) conflictsAt(addr netip.Addr) []Finding {
	var found []Finding
	pods, sandboxes := map[carriedOn][]string{}, map[carriedOn][]reportEntry{}
	carriers, refuted, has := map[string][]string{}, map[string][]string{}, map[string]bool{}
	configured := x.sandboxesByAddress[addr]
	for _, b := range configured {
		has[b.report.Name+"/"+b.name()] = true
	}
	for _, c := range x.podsNaming(addr) {
		if c.nad == nil {
			continue // not known which network: no finding
		}
		isRefuted := !has[c.pod.Node+"/"+c.pod.String()] && x.refutes(c.pod)
		for _, n := range c.nad.Networks {
			if at := on(n.Name, x.uncheckedOfPod(addr, c)); isRefuted {
				refuted[n.Name] = append(refuted[n.Name], c.pod.String())
			} else if !x.reported(c.pod) {
				pods[at] = append(pods[at], c.pod.String())
				carriers[n.Name] = append(carriers[n.Name], c.pod.String())
			}
		}
	}
	for _, b := range configured {
		if x.isReady(&b.reportEntry) {
			at := on(b.NetworkName, x.uncheckedOfSandbox(addr, &b))
			sandboxes[at] = append(sandboxes[at], b.reportEntry)
			carriers[b.NetworkName] = append(carriers[b.NetworkName], b.name())
			if pod := x.podOf(b.sandbox); pod != nil && x.reported(pod) {
				pods[at] = append(pods[at], pod.String())
			}
		}
	}
	together(pods)
	together(sandboxes)
	for at, names := range pods {
		if names = sortedUnique(names); len(names) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: addr.String(), Pool: x.poolNameOf(addr, at.network), Pods: names,
				Message: fmt.Sprintf("%s is carried by %s", addr, strings.Join(names, " and "))})
		}
	}
	for at, gs := range sandboxes {
		var ids, names, where []string
		said := map[string]bool{}
		for _, g := range gs {
			if !said[g.sandbox.ID] {
				said[g.sandbox.ID] = true
				ids = append(ids, g.sandbox.ID)
				names = append(names, g.sandbox.Namespace+"/"+g.sandbox.Name)
				where = append(where, fmt.Sprintf("%s/%s on %s", g.sandbox.Namespace, g.sandbox.Name, g.report.Name))
			}
		}
		if len(ids) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: addr.String(), Pool: x.poolNameOf(addr, at.network), Pods: sortedUnique(names), ContainerIDs: ids,
				Message: fmt.Sprintf("%s is configured in two running sandboxes: %s", addr, strings.Join(where, " and "))})
		}
	}
	return append(found, x.statusMismatches(addr, refuted, carriers)...)
}

// statusMismatches are the pods, by network, whose network-status names an address that they do not have by the reports of
// their nodes, where others name or carry the address.
func (x *Index) statusMismatches(addr netip.Addr, refuted, carriers map[string][]string) (found []Finding) {
	for network, pods := range refuted {
		pods, others := sortedUnique(pods), sortedUnique(carriers[network])
		if len(sortedUnique(slices.Concat(pods, others))) > 1 {
			found = append(found, Finding{Kind: StatusMismatch, IP: addr.String(), Pool: x.poolNameOf(addr, network), Pods: pods,
				Message: fmt.Sprintf("the network-status of %s names %s, and a fresh SandboxReport shows no sandbox of the pod with it; carried by %s",
					strings.Join(pods, " and "), addr, cmp.Or(strings.Join(others, " and "), "nobody"))})
		}
	}
	return found
}

// poolNameOf names a pool that has the address on the network, or should be there to have it.
func (x *Index) poolNameOf(addr netip.Addr, network string) string {
	for _, p := range x.poolsAt(addr) {
		if p.isOfNetwork(network) {
			return p.ref
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(x.missingPools)) {
		if p := x.missingPools[ref]; p.isOfNetwork(network) && p.Range.Contains(addr) {
			return ref
		}
	}
	return ""
}

// unreadSandboxes are those of which there is neither a CNI cache file nor a pod: each may carry any address.
func (x *Index) unreadSandboxes() (found []Finding) {
	for _, u := range x.allUnread() {
		if u.any {
			found = append(found, Finding{Kind: UnreadSandbox, Pods: []string{u.sandbox.Namespace + "/" + u.sandbox.Name}, ContainerIDs: []string{u.sandbox.ID}, Node: u.Name,
				Message: fmt.Sprintf("sandbox %s on %s has no CNI cache file, and the API has no pod %s/%s: it may carry any address, and all stale ones are held",
					u.sandbox.ID, u.Name, u.sandbox.Namespace, u.sandbox.Name)})
		}
	}
	return found
}

// nodesWithoutReport are the nodes that keep allocations from being judged.
func nodesWithoutReport(items []*Item) []Finding {
	type nodes struct {
		names []string
		items int
	}
	same := map[*string]*nodes{} // many share one list
	for _, it := range items {
		if names := it.evidence.WithoutReport; it.Allocation != nil && it.evidence.Sandbox == NoFreshReport && len(names) > 0 {
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
	var found []Finding
	for _, node := range slices.Sorted(maps.Keys(count)) {
		found = append(found, Finding{Kind: NoFreshReportFinding, Node: node,
			Message: fmt.Sprintf("no fresh SandboxReport from %s, on which %d allocations depend; check its node agent", node, count[node])})
	}
	return found
}

func (x *Index) malformed(items []*Item) []Finding {
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

func (it *Item) malformed() Finding {
	f := Finding{Kind: MalformedFinding, IP: it.Text(), Message: "reservation " + it.Object() + ": " + it.Message()}
	if it.Allocation != nil {
		f.Pool, f.Message = it.Object(), fmt.Sprintf("pool %s, entry %q: %s", it.Object(), it.Key(), it.Message())
	}
	if it.PodRef() != "" {
		f.Pods = []string{it.PodRef()}
	}
	return f
}
