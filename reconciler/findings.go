package reconciler

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Kind names a finding.
type Kind string

const (
	Phantom            Kind = "Phantom"
	Conflict           Kind = "Conflict"
	Unrecorded         Kind = "Unrecorded"
	MissingReservation Kind = "MissingReservation"
	SilentNode         Kind = "SilentNode"
	MalformedFinding   Kind = "Malformed"
)

// Finding is something wrong beside the verdicts. The JSON names are a contract.
type Finding struct {
	Kind         Kind     `json:"kind"`
	IP           string   `json:"ip"`
	Pool         string   `json:"pool"`
	Pods         []string `json:"pods"`
	ContainerIDs []string `json:"containerIDs"`
	Node         string   `json:"node"`
	Message      string   `json:"message"`

	repair *repair
}

// repair is what --repair would write for a finding.
type repair struct {
	pool        *ippool.Pool // to write an entry into
	item        *Item        // of the allocation whose reservation is missing
	key         string
	address     netip.Addr
	network     string
	containerID string
	podRef      string
	ifName      string
}

func (w *world) findings(j *Judgement) []Finding {
	found := slices.Concat(w.phantoms(), w.conflicts(), w.unrecorded(), w.missingReservations(j), w.silentNodes(j), w.malformed(j))
	for i := range found {
		f := &found[i]
		f.Pods, f.ContainerIDs = append([]string{}, f.Pods...), append([]string{}, f.ContainerIDs...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Message, b.Message))
	})
	return found
}

// freshBoxes calls f for every READY sandbox of a fresh report.
func (w *world) freshBoxes(f func(sighting)) {
	for _, name := range slices.Sorted(maps.Keys(w.reports)) {
		r := w.reports[name]
		if !r.Fresh(w.Now) {
			continue
		}
		for i := range r.Sandboxes {
			if b := &r.Sandboxes[i]; b.State == "Ready" {
				f(sighting{report: r, box: b})
			}
		}
	}
}

// known says whether the API has the sandbox's pod.
func (w *world) known(g sighting) bool {
	p := w.Pods[types.NamespacedName{Namespace: g.box.Namespace, Name: g.box.Name}]
	return p != nil && (g.box.UID == "" || g.box.UID == p.UID || g.box.UID == p.RuntimeUID)
}

func (w *world) phantoms() []Finding {
	var found []Finding
	w.freshBoxes(func(g sighting) {
		if !g.report.Settled(g.box, w.Now) || w.known(g) {
			return
		}
		pod := g.box.Namespace + "/" + g.box.Name
		var ips, pools, missing []string
		for _, a := range g.box.Addresses {
			addr, ok := podstate.ParseAddress(a)
			if !ok {
				continue
			}
			ips = append(ips, addr.String())
			recorded := false
			for _, e := range w.entriesFor(addr) {
				if e.ContainerID == g.box.ID && w.sameNetwork(e.pool, a.NetworkName) {
					recorded, pools = true, append(pools, e.pool.Ref())
				}
			}
			if !recorded {
				missing = append(missing, addr.String())
			}
		}
		message := fmt.Sprintf("pod %s (UID %s) runs on %s and the API does not know it", pod, g.box.UID, g.report.Name)
		switch {
		case len(missing) > 0:
			message += "; no pool records its " + strings.Join(missing, ", ") + ": the next ADD may hand it out again"
		case len(pools) > 0:
			message += "; its address is recorded and held"
		}
		found = append(found, Finding{Kind: Phantom, IP: strings.Join(ips, ","), Pool: strings.Join(sortedUnique(pools), ","),
			Pods: []string{pod}, ContainerIDs: []string{g.box.ID}, Node: g.report.Name, Message: message})
	})
	return found
}

// conflicts are addresses that two pods, or two sandboxes, carry in one network.
func (w *world) conflicts() []Finding {
	var found []Finding
	type place struct {
		network string
		addr    netip.Addr
	}
	pods := map[place][]string{}
	for addr, carriers := range w.pods {
		for _, c := range carriers {
			if c.nad == nil {
				continue // not known which network: no finding
			}
			for _, n := range c.nad.Networks {
				at := place{n.Name, addr}
				pods[at] = append(pods[at], c.pod.String())
			}
		}
	}
	boxes := map[place][]sighting{}
	w.freshBoxes(func(g sighting) {
		for _, a := range g.box.Addresses {
			if addr, ok := podstate.ParseAddress(a); ok {
				at := place{a.NetworkName, addr}
				boxes[at] = append(boxes[at], g)
			}
		}
	})
	for at, names := range pods {
		if names = sortedUnique(names); len(names) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: at.addr.String(), Pool: w.poolOf(at.addr, at.network), Pods: names,
				Message: fmt.Sprintf("%s is carried by %s", at.addr, strings.Join(names, " and "))})
		}
	}
	for at, gs := range boxes {
		var ids, names, where []string
		for _, g := range gs {
			if !slices.Contains(ids, g.box.ID) {
				ids = append(ids, g.box.ID)
				names = append(names, g.box.Namespace+"/"+g.box.Name)
				where = append(where, fmt.Sprintf("%s/%s on %s", g.box.Namespace, g.box.Name, g.report.Name))
			}
		}
		if len(ids) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: at.addr.String(), Pool: w.poolOf(at.addr, at.network), Pods: sortedUnique(names), ContainerIDs: ids,
				Message: fmt.Sprintf("%s is configured in two running sandboxes: %s", at.addr, strings.Join(where, " and "))})
		}
	}
	return found
}

// poolOf names a pool that has the address on the network.
func (w *world) poolOf(addr netip.Addr, network string) string {
	for _, p := range w.Pools {
		if p.Problem == "" && p.Range.Contains(addr) && w.sameNetwork(p, network) {
			return p.Ref()
		}
	}
	return ""
}

// missingReservations are allocations in use without their reservation, where
// the network uses overlapping ranges. One that may be in the middle of its ADD
// is left out.
func (w *world) missingReservations(j *Judgement) []Finding {
	var found []Finding
	uses := w.overlapping(j)
	for _, it := range j.Allocations {
		if it.Verdict != InUse || it.Reason == PodPending || len(it.With) > 0 || !uses[it.Pool] {
			continue
		}
		pod := it.Evidence.Pod
		if pod == nil || w.Now.Sub(pod.Created) < recentFor {
			continue
		}
		f := Finding{Kind: MissingReservation, IP: it.Address.String(), Pool: it.Pool.Ref(), Pods: []string{it.PodRef},
			ContainerIDs: []string{it.ContainerID}, Node: it.Evidence.node(),
			Message: fmt.Sprintf("%s of %s has no reservation: a pool with an overlapping range may hand it out", it.Address, it.PodRef)}
		if networks := w.networks[it.Pool]; len(networks) == 1 && !it.Pool.Range.AmbiguousKeys() {
			f.repair = &repair{item: it, address: it.Address, network: networks[0], podRef: it.PodRef, ifName: it.IfName}
		}
		found = append(found, f)
	}
	return found
}

// overlapping says which pools' networks use overlapping ranges: by their
// readable definitions; without any, by other allocations having reservations.
func (w *world) overlapping(j *Judgement) map[*ippool.Pool]bool {
	uses, told := map[*ippool.Pool]bool{}, map[*ippool.Pool]bool{}
	for _, nad := range w.NADs {
		for _, n := range nad.Networks {
			for _, p := range w.Pools {
				if n.Maps(p, w.networks[p]) {
					told[p], uses[p] = true, uses[p] || n.Overlapping
				}
			}
		}
	}
	reserved := map[string]bool{}
	for _, it := range j.Allocations {
		if len(it.With) > 0 {
			for _, n := range w.networks[it.Pool] {
				reserved[n] = true
			}
		}
	}
	for _, p := range w.Pools {
		if !told[p] {
			uses[p] = slices.ContainsFunc(w.networks[p], func(n string) bool { return reserved[n] })
		}
	}
	return uses
}

func (w *world) silentNodes(j *Judgement) []Finding {
	count := map[string]int{}
	for _, it := range j.Allocations {
		if it.Evidence.Sandbox == Unheard {
			for _, n := range it.Evidence.Unheard {
				count[n]++
			}
		}
	}
	var found []Finding
	for _, node := range slices.Sorted(maps.Keys(count)) {
		found = append(found, Finding{Kind: SilentNode, Node: node,
			Message: fmt.Sprintf("no fresh SandboxReport from %s: %d allocations cannot be judged; look at its node agent", node, count[node])})
	}
	return found
}

func (w *world) malformed(j *Judgement) []Finding {
	var found []Finding
	for _, text := range w.Unreadable {
		found = append(found, Finding{Kind: MalformedFinding, Message: text})
	}
	for _, p := range w.Pools {
		if p.Problem != "" {
			found = append(found, Finding{Kind: MalformedFinding, Pool: p.Ref(), Message: "pool " + p.Ref() + ": " + p.Problem})
		}
	}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if it.Reason != Malformed || it.Pool != nil && it.Pool.Problem != "" {
			continue
		}
		f := Finding{Kind: MalformedFinding, Pool: it.Object, Message: it.Object + ": " + it.Message}
		if it.Address.IsValid() {
			f.IP = it.Address.String()
		}
		if it.Pool == nil {
			f.Pool, f.Message = "", "reservation "+it.Object+": "+it.Message
		} else {
			f.Message = fmt.Sprintf("pool %s, entry %q: %s", it.Object, it.Key, it.Message)
		}
		if it.PodRef != "" {
			f.Pods = []string{it.PodRef}
		}
		found = append(found, f)
	}
	return found
}
