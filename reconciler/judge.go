package reconciler

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Item is one allocation or reservation with its verdict.
type Item struct {
	ID
	Judged
	Pool        *ippool.Pool        // of an allocation
	Allocation  *ippool.Allocation  // nil for a reservation
	Reservation *ippool.Reservation // nil for an allocation
	Address     netip.Addr
	Network     string    // of a reservation, where it is known
	Evidence    *Evidence // nil for a reservation that shares an allocation's verdict
	// With are the reservations of an allocation, or the allocations of a
	// reservation.
	With []*Item
}

// Judgement is the verdict on everything that was observed.
type Judgement struct {
	Observation  *Observation
	Allocations  []*Item // by pool, then address
	Reservations []*Item // by name
	Findings     []Finding
	// WithoutAgents: no node agent reports, so that a phantom pod on a Ready
	// node cannot be told from a leak.
	WithoutAgents bool
	// Nodes are those that should have an agent, and those that have a report;
	// none where there are no agents.
	Nodes map[string]NodeState
	// Due is when a verdict or finding may change although nothing that was
	// observed does; zero for never.
	Due time.Time
}

// recentFor is how long an ADD or DEL may keep a reservation without its entry
// (whereabouts v0.9.4, pkg/types/types.go, AddTimeLimit).
const recentFor = 2 * time.Minute

// Judge gives everything observed its verdict. It does no I/O, and the same
// observation and policy always give the same judgement: the first look, the
// fresh look before a write, the CLI on a folder and the Deployment all call it.
func Judge(o *Observation, policy Policy) *Judgement {
	w, j := judge(o, policy, nil)
	j.Findings = w.findings(j)
	j.Due = w.due(j)
	return j
}

// judge gives verdicts to what is recorded of the addresses in only, nil for
// all. The evidence is that of the whole observation either way.
func judge(o *Observation, policy Policy, only map[netip.Addr]bool) (*world, *Judgement) {
	w := newWorld(o, policy)
	rules := table()
	j := &Judgement{Observation: o, WithoutAgents: !w.inUse, Nodes: w.nodeStates()}
	for _, p := range o.Pools {
		for i := range p.Allocations {
			if a := &p.Allocations[i]; only == nil || only[a.Address] || p.Range.AmbiguousKeys() {
				j.Allocations = append(j.Allocations, w.judgeAllocation(p, a, rules))
			}
		}
	}
	slices.SortStableFunc(j.Allocations, byPlace)
	j.Reservations = w.judgeReservations(j.Allocations, only, rules)
	return w, j
}

func (w *world) judgeAllocation(p *ippool.Pool, a *ippool.Allocation, rules []rule) *Item {
	it := &Item{ID: allocationID(p, a), Pool: p, Allocation: a, Address: a.Address}
	if a.Problem != "" {
		it.Evidence = &Evidence{Problem: a.Problem, Detail: a.Detail, Owner: a.Owner, Sandbox: NoSource}
	} else {
		s := &subject{id: it.ID, pool: p, alloc: a, owner: a.Owner, sighted: w.byID[a.ContainerID]}
		it.Evidence = w.gather(s)
		it.Evidence.Claimant, it.Evidence.ClaimantNode = w.claimant(s)
	}
	it.Judged = it.Evidence.judge(rules)
	return it
}

// judgeReservations gives each reservation the verdict of its allocation, and
// judges the ones that have none by the same table.
func (w *world) judgeReservations(allocations []*Item, only map[netip.Addr]bool, rules []rule) []*Item {
	byID := make(map[ID]*Item, len(allocations))
	for _, a := range allocations {
		byID[a.ID] = a
	}
	networks := w.networkNames()
	items := make([]*Item, 0, len(w.Reservations))
	for _, r := range w.Reservations {
		it := &Item{ID: reservationID(r), Reservation: r}
		readings := w.readings(r, networks)
		if len(readings) > 0 {
			it.Address, it.Network = readings[0].address, readings[0].network
		}
		if only != nil && !slices.ContainsFunc(readings, func(x reading) bool { return only[x.address] }) {
			continue
		}
		if r.Problem != "" {
			it.Evidence = &Evidence{Problem: r.Problem, Detail: r.Detail, Owner: r.Owner, Sandbox: NoSource}
			it.Judged = it.Evidence.judge(rules)
		} else if it.With = w.allocationsOf(r, readings, byID); len(it.With) > 0 {
			it.Judged = mostCareful(it.With)
		} else {
			it.Evidence = w.standsAlone(it, readings)
			it.Judged = it.Evidence.judge(rules)
			it.Proven = false // nothing names its sandbox
		}
		for _, a := range it.With {
			a.With = append(a.With, it)
		}
		items = append(items, it)
	}
	slices.SortStableFunc(items, byPlace)
	return items
}

// byPlace orders items by pool or name, then address.
func byPlace(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Object, b.Object), a.Address.Compare(b.Address), cmp.Compare(a.Key, b.Key))
}

// reading is one way to read a reservation's name.
type reading struct {
	network string
	address netip.Addr
}

// networkNames are all network names that pools of a namespace may have.
func (w *world) networkNames() map[string][]string {
	names := map[string][]string{}
	for p, networks := range w.networks {
		names[p.Namespace] = append(append(names[p.Namespace], networks...), "")
	}
	for ns := range names {
		names[ns] = sortedUnique(names[ns])
	}
	return names
}

// readings are the ways to read a reservation's name that a readable pool
// allows for: the pool may be of the network, and has the address in its range.
func (w *world) readings(r *ippool.Reservation, networks map[string][]string) []reading {
	var found []reading
	for _, network := range networks[r.Namespace] {
		addr, ok := ippool.ReservedAddress(r.Name, network)
		if !ok {
			continue
		}
		if slices.ContainsFunc(w.Pools, func(p *ippool.Pool) bool {
			return p.Namespace == r.Namespace && p.Problem == "" && w.sameNetwork(p, network) && p.Range.Contains(addr)
		}) {
			found = append(found, reading{network, addr})
		}
	}
	return found
}

// allocationsOf are the allocations of the same address, network and podref.
func (w *world) allocationsOf(r *ippool.Reservation, readings []reading, byID map[ID]*Item) []*Item {
	var found []*Item
	for _, read := range readings {
		for _, e := range w.entriesFor(read.address) {
			if e.pool.Namespace == r.Namespace && e.PodRef == r.PodRef && w.sameNetwork(e.pool, read.network) {
				if it := byID[allocationID(e.pool, e.Allocation)]; it != nil && !slices.Contains(found, it) {
					found = append(found, it)
				}
			}
		}
	}
	return found
}

func mostCareful(items []*Item) Judged {
	care := func(j Judged) int {
		switch {
		case j.Verdict == InUse:
			return 0
		case j.Verdict == Held:
			return 1
		case !j.Proven:
			return 2
		}
		return 3
	}
	return slices.MinFunc(items, func(a, b *Item) int { return cmp.Compare(care(a.Judged), care(b.Judged)) }).Judged
}

// standsAlone gathers the evidence on a reservation without an allocation. Its
// sandbox is looked for by address and network.
func (w *world) standsAlone(it *Item, readings []reading) *Evidence {
	r := it.Reservation
	e := &Evidence{Owner: r.Owner, Sandbox: NoSource}
	if len(readings) == 1 {
		s := &subject{id: it.ID, owner: r.Owner, network: it.Network, address: it.Address}
		for _, b := range w.boxes[it.Address] {
			if b.NetworkName == it.Network {
				s.sighted = append(s.sighted, b.sighting)
			}
		}
		e = w.gather(s)
		e.Claimant, e.ClaimantNode = w.claimant(s)
	}
	switch {
	case w.Now.Sub(r.Created) < recentFor:
		e.Recent = true
	case len(readings) == 0:
		e.Problem, e.Detail = ippool.Malformed, "no pool's range and network give this name"
	case len(readings) > 1:
		e.Problem, e.Detail = ippool.Malformed, fmt.Sprintf("the name is ambiguous: %s", describe(readings))
	}
	return e
}

func describe(readings []reading) string {
	text := ""
	for i, r := range readings {
		if i > 0 {
			text += ", or "
		}
		text += fmt.Sprintf("%s in network %q", r.address, r.network)
	}
	return text
}

// node is the one node that the evidence is about, "" where there are several.
func (e *Evidence) node() string {
	switch {
	case e == nil:
		return ""
	case len(e.Nodes) == 1:
		return e.Nodes[0]
	case e.Phase != podstate.None && e.Pod != nil && e.Own != NotItsPod:
		return e.Pod.Node
	}
	return ""
}

func (it *Item) owner() ippool.PodRef {
	if it.Allocation != nil {
		return it.Allocation.Owner
	}
	return it.Reservation.Owner
}

// About is the part of a judgement that is about one address.
func (j *Judgement) About(addr netip.Addr) *Judgement {
	about := *j
	other := func(it *Item) bool {
		if it.Allocation != nil && it.Pool.Problem == "" && it.Allocation.Problem == "" {
			return !it.Pool.Range.HasKey(addr, it.Allocation.Offset)
		}
		return it.Address != addr
	}
	about.Allocations = slices.DeleteFunc(slices.Clone(j.Allocations), other)
	about.Reservations = slices.DeleteFunc(slices.Clone(j.Reservations), other)
	about.Findings = slices.DeleteFunc(slices.Clone(j.Findings), func(f Finding) bool {
		return !slices.Contains(strings.Split(f.IP, ","), addr.String())
	})
	return &about
}
