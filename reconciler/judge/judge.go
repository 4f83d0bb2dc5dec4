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
)

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
	// Restore is what is known of the last restore of etcd; nil where none is.
	Restore *RestoreState
	// Recheck is when a verdict or finding may change although nothing that was
	// observed does; zero for never.
	Recheck time.Time
	// Total is the number of allocations that there are; a judgement of some addresses
	// has fewer.
	Total int

	x *Index
}

// addTimeLimit is how long an ADD or DEL may keep a reservation without its entry
// (whereabouts v0.9.4, pkg/types/types.go, AddTimeLimit).
const addTimeLimit = 2 * time.Minute

// Judge gives everything observed its verdict. It does no I/O, and the same
// observation, past and policy always give the same judgement: the first pass, the
// second check before a write, the CLI on a folder and the Deployment all call it.
// past is nil where nothing is known of earlier observations.
func Judge(o *Observation, past Past, policy Policy) *Judgement {
	return NewIndex(o, past, policy).judgeAll()
}

func (x *Index) judgeAll() *Judgement {
	var entries []entry
	for _, p := range x.pools {
		for i := range p.Allocations {
			entries = append(entries, entry{p, i, &p.Allocations[i]})
		}
	}
	j := x.judge(entries, slices.SortedStableFunc(slices.Values(x.o.Reservations), byName))
	j.Total = len(j.Allocations)
	j.Findings = x.findings(slices.Concat(j.Allocations, j.Reservations))
	j.Recheck = x.nextRecheck(j)
	return j
}

// JudgeAddresses gives verdicts to what is recorded of some addresses, on all the
// evidence there is. The cost grows with the addresses. There are no findings in it, and Nodes are
// as they were when the index was built.
func (x *Index) JudgeAddresses(addresses []netip.Addr) *Judgement {
	var entries []entry
	reservations := map[*ippool.Reservation]bool{}
	for _, addr := range uniqueAddresses(slices.Clone(addresses)) {
		entries = x.entriesFor(entries, addr)
		for _, p := range x.poolsAt(addr) {
			for _, network := range x.networksIn(p) {
				if r := x.reservationNamed(p.Namespace, ippool.ReservationName(network, addr)); r != nil {
					reservations[r] = true
				}
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.pool.ref, b.pool.ref), cmp.Compare(a.at, b.at)) })
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.Allocation == b.Allocation })
	return x.judge(entries, slices.SortedFunc(maps.Keys(reservations), byName))
}

// judge gives entries and reservations their verdicts.
func (x *Index) judge(entries []entry, reservations []*ippool.Reservation) *Judgement {
	j := &Judgement{Observation: x.o, WithoutAgents: !x.inUse, Nodes: x.states, x: x,
		Allocations: make([]*Item, 0, len(entries)), Reservations: make([]*Item, 0, len(reservations))}
	all, items := make([]Item, len(entries)), make(map[*ippool.Allocation]*Item, len(entries))
	for i, e := range entries {
		it := &all[i]
		*it = Item{Pool: e.pool.Pool, Allocation: e.Allocation, x: x, in: e.pool, evidence: x.evidenceOnAllocation(e.pool, e.Allocation)}
		it.Judged = x.rules.judge(&it.evidence)
		j.Allocations, items[e.Allocation] = append(j.Allocations, it), it
	}
	for _, r := range reservations {
		j.Reservations = append(j.Reservations, x.judgeReservation(r, items))
	}
	return j
}

// evidenceOnAllocation is the evidence on one allocation.
func (x *Index) evidenceOnAllocation(p *pool, a *ippool.Allocation) Evidence {
	if a.Problem != "" {
		return Evidence{Problem: a.Problem, Detail: a.Detail, Sandbox: NoSource}
	}
	return x.gather(&candidate{pool: p, alloc: a, owner: a.Owner, reported: x.byContainerID[a.ContainerID], pod: x.owner(a.Owner)})
}

// judgeReservation gives a reservation the verdict of its allocation, or judges one that has
// none by the same table.
func (x *Index) judgeReservation(r *ippool.Reservation, items map[*ippool.Allocation]*Item) *Item {
	it := &Item{Reservation: r, x: x}
	readings := x.readingsOf(r)
	if len(readings) > 0 {
		it.reading = readings[0]
	}
	related := x.allocationsOf(r, readings, items)
	switch {
	case r.Problem == ippool.UnknownField: // it stands for nothing, and still is the reservation
		for _, a := range related {
			a.reservedUnknown = true
		}
	case r.Problem == "" && len(related) > 0:
		it.related, it.sharedWith = related, mostConservative(related)
		it.Judged = it.sharedWith.Judged
		for _, a := range related {
			a.related = append(a.related, it)
		}
		return it
	}
	it.evidence = x.evidenceOnReservation(r, readings)
	it.Judged = x.rules.judge(&it.evidence)
	return it
}

// byName orders reservations as "<namespace>/<name>".
func byName(a, b *ippool.Reservation) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(a.Ref(), b.Ref())
}

// ByPlace orders items by pool or name, then address.
func ByPlace(a, b *Item) int {
	if a.Pool == nil || a.Pool != b.Pool {
		if c := cmp.Compare(a.Object(), b.Object()); c != 0 {
			return c
		}
	}
	return cmp.Or(a.Address().Compare(b.Address()), cmp.Compare(a.Key(), b.Key()))
}

// allocationsOf are the allocations of the same address, network and podref.
func (x *Index) allocationsOf(r *ippool.Reservation, readings []nameReading, items map[*ippool.Allocation]*Item) (found []*Item) {
	for _, read := range readings {
		for _, e := range x.entriesFor(nil, read.address) {
			if it := items[e.Allocation]; it != nil && e.pool.Namespace == r.Namespace && e.PodRef == r.PodRef && e.pool.isOfNetwork(read.network) && !slices.Contains(found, it) {
				found = append(found, it)
			}
		}
	}
	return found
}

// mostConservative is the first of the items with the most conservative verdict.
func mostConservative(items []*Item) *Item {
	rank := func(j Judged) int {
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
	return slices.MinFunc(items, func(a, b *Item) int { return cmp.Compare(rank(a.Judged), rank(b.Judged)) })
}

// evidenceOnReservation is the evidence on a reservation without an allocation. Its
// sandbox is looked for by address and network.
func (x *Index) evidenceOnReservation(r *ippool.Reservation, readings []nameReading) Evidence {
	if r.Problem != "" {
		return Evidence{Problem: r.Problem, Detail: r.Detail, Sandbox: NoSource}
	}
	e := Evidence{Sandbox: NoSource}
	if len(readings) == 1 {
		s := &candidate{reservation: r, owner: r.Owner, network: readings[0].network, address: readings[0].address, pod: x.owner(r.Owner)}
		for _, b := range x.sandboxesByAddress[s.address] {
			// A leftover says nothing of what the reservation was made for.
			if b.NetworkName == s.network && x.holds(&b.reportEntry) {
				s.reported = append(s.reported, b.reportEntry)
			}
		}
		e = x.gather(s)
	}
	e.Deleting = r.Deleting
	since := x.seen(&candidate{reservation: r}).UncontradictedSince
	e.LongAlone = !since.IsZero() && x.now.Sub(since) >= longAlone
	switch {
	case x.now.Sub(r.Created) < addTimeLimit:
		e.Recent = true
	case len(readings) == 0:
		e.Problem, e.Detail = ippool.Malformed, "no pool's range and network give this name"
	case len(readings) > 1:
		e.Problem, e.Detail = ippool.Malformed, fmt.Sprintf("the name is ambiguous: %s", describe(readings))
	}
	return e
}

// longAlone is how long a reservation must have stood alone before nodes that do not report
// no longer keep it.
const longAlone = 24 * time.Hour

func describe(readings []nameReading) string {
	var texts []string
	for _, r := range readings {
		texts = append(texts, fmt.Sprintf("%s in network %q", r.address, r.network))
	}
	return strings.Join(texts, ", or ")
}

// Index is what was judged, for those who amend it and judge again.
func (j *Judgement) Index() *Index { return j.x }

// About is the part of a judgement that is about one address.
func (j *Judgement) About(addr netip.Addr) *Judgement {
	about := *j
	other := func(it *Item) bool {
		if it.Allocation != nil && it.Pool.Problem == "" && it.Allocation.Problem == "" {
			return !it.Pool.Range.HasKey(addr, it.Allocation.Offset)
		}
		return it.Address() != addr
	}
	about.Allocations = slices.DeleteFunc(slices.Clone(j.Allocations), other)
	about.Reservations = slices.DeleteFunc(slices.Clone(j.Reservations), other)
	about.Findings = slices.DeleteFunc(slices.Clone(j.Findings), func(f Finding) bool {
		return !slices.Contains(strings.Split(f.IP, ","), addr.String())
	})
	return &about
}
