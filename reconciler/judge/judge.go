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
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Judgement is the verdict on everything that was observed.
type Judgement struct {
	Observation  *facts.Observation
	Allocations  []*Item // by pool, then address
	Reservations []*Item // by name
	// WithoutAgents: no node agent reports, so that a phantom pod on a Ready node is taken for a leak.
	WithoutAgents bool
	// Nodes are those that should have an agent or have a report. It is empty without agents.
	Nodes map[string]facts.NodeState
	// Total is the number of all allocations; a judgement of some addresses has fewer.
	Total int

	facts *facts.Facts
	past  Past
	// reservedApart are the allocations whose reservation is judged by itself.
	reservedApart map[*Item]bool
}

const (
	// AddTimeLimit is how long an ADD or DEL may keep a reservation without an allocation
	// (whereabouts v0.9.4, pkg/types/types.go, AddTimeLimit).
	AddTimeLimit = 2 * time.Minute
	// minTimeAlone is after how long without an allocation a reservation no longer waits for nodes without a report.
	minTimeAlone = 24 * time.Hour
)

// Judge gives a verdict to everything that was observed. The same facts, past and overrides always give the same
// judgement. past is nil if nothing is known of earlier observations, overrides if nobody asserts anything.
func Judge(f *facts.Facts, past Past, overrides Overrides) *Judgement {
	g := newJudging(f, past, overrides)
	var entries []facts.Entry
	for _, p := range f.Pools() {
		for i := range p.Allocations {
			entries = append(entries, facts.Entry{Pool: p, Allocation: &p.Allocations[i]})
		}
	}
	j := g.judgeAll(entries, slices.Clone(f.Base().Reservations.Or(nil)))
	j.Total = len(j.Allocations)
	return j
}

// JudgeAt gives verdicts to the allocations and reservations of some addresses. The cost grows with the number of
// addresses.
func JudgeAt(f *facts.Facts, past Past, overrides Overrides, addresses []netip.Addr) *Judgement {
	g := newJudging(f, past, overrides)
	return g.judgeAll(g.at(addresses))
}

// at are the entries and the reservations of some addresses.
func (x *judging) at(addresses []netip.Addr) (entries []facts.Entry, _ []*ippool.Reservation) {
	reservations := map[*ippool.Reservation]bool{}
	for _, addr := range facts.UniqueAddresses(slices.Clone(addresses)) {
		for _, p := range x.PoolsAt(addr) {
			entries = append(entries, p.EntriesAt(addr)...)
			for _, network := range x.NetworksIn(p) {
				if r := x.ReservationNamed(p.Namespace, ippool.ReservationName(network, addr)); r != nil {
					reservations[r] = true
				}
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b facts.Entry) int {
		return cmp.Or(cmp.Compare(a.Pool.Ref(), b.Pool.Ref()), a.Address.Compare(b.Address))
	})
	return entries, slices.Collect(maps.Keys(reservations))
}

// judging makes one judgement by what was indexed and what was found earlier.
type judging struct {
	*facts.Facts
	past      Past
	overrides Overrides
	j         *Judgement
	items     map[*ippool.Allocation]*Item // what is judged
	nodeSets  map[nodeSetKey]*nodeSet      // see nodeSetOf
}

func newJudging(f *facts.Facts, past Past, overrides Overrides) *judging {
	if past == nil {
		past = noPast{}
	}
	return &judging{Facts: f, past: past, overrides: overrides, nodeSets: map[nodeSetKey]*nodeSet{},
		j: &Judgement{Observation: f.Base(), WithoutAgents: !f.HasAgents(), Nodes: f.NodeStates(), facts: f, past: past}}
}

// judgeAll gives verdicts to entries, each once, and to reservations.
func (x *judging) judgeAll(entries []facts.Entry, reservations []*ippool.Reservation) *Judgement {
	j := x.j
	j.Allocations, j.Reservations = make([]*Item, 0, len(entries)), make([]*Item, 0, len(reservations))
	j.reservedApart, x.items = map[*Item]bool{}, make(map[*ippool.Allocation]*Item, len(entries))
	for _, e := range entries {
		if x.items[e.Allocation] == nil {
			it := x.judgeAllocation(e)
			j.Allocations, x.items[e.Allocation] = append(j.Allocations, it), it
		}
	}
	slices.SortStableFunc(reservations, facts.CompareReservations)
	for _, r := range reservations {
		j.Reservations = append(j.Reservations, x.judgeReservation(r))
	}
	return j
}

func (x *judging) judgeAllocation(a facts.Entry) *Item {
	it := &Item{Pool: a.Pool.Pool, Allocation: a.Allocation, j: x.j, pool: a.Pool}
	switch {
	case a.Problem != "":
		return it.judged(unreadable(a.Problem, a.Detail))
	case a.ContainerID == "": // whereabouts writes no such entry
		return it.judged(unreadable(ippool.Malformed, "it has no id, so no report can show that its sandbox has ended"))
	}
	return it.judged(x.evidenceOn(it, x.Mentions(a.ContainerID)))
}

// judged gives an item its verdict, by evidence that nothing changes any more.
func (it *Item) judged(e Evidence) *Item {
	it.evidence, it.Decision = &e, decide(&e)
	return it
}

func unreadable(problem ippool.Problem, detail string) Evidence {
	return Evidence{Problem: problem, Detail: detail, nodeSet: nodeSet{Sandbox: NoSource}}
}

// judgeReservation gives a reservation the verdict of its allocation. A reservation without one is judged by the table.
func (x *judging) judgeReservation(r *ippool.Reservation) *Item {
	it := &Item{Reservation: r, j: x.j}
	readings := x.ReadingsOf(r)
	if len(readings) > 0 {
		it.reading = &readings[0]
	}
	related := x.allocationsOf(r, readings, x.items)
	unsupported := x.UnsupportedPoolOf(r, readings, len(related) == 0)
	keepsForAnother := slices.ContainsFunc(related, func(a *Item) bool {
		return r.Claim != nil && !it.HasClaimOf(a)
	})
	switch {
	case r.Problem == ippool.UnknownField || keepsForAnother || unsupported != nil:
		// The allocations have a reservation, which is judged by itself.
		for _, a := range related {
			x.j.reservedApart[a] = true
		}
	case r.Problem == "" && len(related) > 0:
		it.related, it.verdictSource = related, mostConservative(related)
		it.Decision = it.verdictSource.Decision
		for _, a := range related {
			a.related = append(a.related, it)
		}
		return it
	}
	switch {
	case r.Problem != "":
		return it.judged(unreadable(r.Problem, r.Detail))
	case unsupported != nil:
		return it.judged(unreadable(ippool.UnsupportedRange, fmt.Sprintf("the address may be of pool %s, whose %s",
			unsupported.Ref(), unsupported.Unsupported)))
	}
	return it.judged(x.evidenceOnLone(it, readings))
}

// allocationsOf are the allocations in supported ranges with the address, network and podref of a reservation.
func (x *judging) allocationsOf(r *ippool.Reservation, readings []facts.NameReading,
	items map[*ippool.Allocation]*Item) (found []*Item) {
	for _, read := range readings {
		for _, e := range x.EntriesFor(read.Address) {
			isOfPod := e.Pool.Namespace == r.Namespace && e.PodRef == r.PodRef && e.Pool.IsOfNetwork(read.Network)
			if it := items[e.Allocation]; it != nil && isOfPod && !slices.Contains(found, it) {
				found = append(found, it)
			}
		}
	}
	return found
}

// mostConservative is the first item with the most conservative verdict.
func mostConservative(items []*Item) *Item {
	rank := func(j Decision) int {
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
	return slices.MinFunc(items, func(a, b *Item) int { return cmp.Compare(rank(a.Decision), rank(b.Decision)) })
}

// evidenceOnLone is the evidence on a reservation without an allocation. Address and network identify its sandbox.
func (x *judging) evidenceOnLone(it *Item, readings []facts.NameReading) Evidence {
	e, r := Evidence{nodeSet: nodeSet{Sandbox: NoSource}}, it.Reservation
	if len(readings) == 1 {
		var mentions []facts.Mention
		for _, b := range x.SandboxesAt(it.reading.Address) {
			// A sandbox that has ended is no evidence on the reservation.
			if b.NetworkName == it.reading.Network && x.MayHoldAddress(&b.Mention) {
				mentions = append(mentions, b.Mention)
			}
		}
		e = x.evidenceOn(it, mentions)
	}
	e.Deleting = r.Deleting
	since := x.past.Of(it.ID()).UncontradictedSince
	e.LongAlone = !since.IsZero() && x.Now().Sub(since) >= minTimeAlone
	switch {
	case r.Created.IsZero():
		e.Problem, e.Detail = ippool.Malformed, "its age is unknown: metadata.creationTimestamp is missing"
	case x.Now().Sub(r.Created) < AddTimeLimit:
		e.Recent = true
	case len(readings) == 0:
		e.Problem, e.Detail = ippool.Malformed, "the name fits no pool's network and range"
	case len(readings) > 1:
		var texts []string
		for _, r := range readings {
			texts = append(texts, fmt.Sprintf("%s in network %q", r.Address, r.Network))
		}
		e.Problem, e.Detail = ippool.Malformed, "the name is ambiguous: "+strings.Join(texts, ", or ")
	}
	return e
}

// Past is what was known of the items before.
func (j *Judgement) Past() Past { return j.past }

// IsReservedApart reports whether the reservation of an allocation is judged by itself.
func (j *Judgement) IsReservedApart(it *Item) bool { return j.reservedApart[it] }

// Facts are what was judged.
func (j *Judgement) Facts() *facts.Facts { return j.facts }

// StaleItems are the allocations and reservations that are Stale.
func (j *Judgement) StaleItems() []*Item {
	return slices.DeleteFunc(slices.Concat(j.Allocations, j.Reservations),
		func(it *Item) bool { return it.Verdict != Stale })
}

// About is the part of the judgement that is about one address.
func (j *Judgement) About(addr netip.Addr) *Judgement {
	about := *j
	isOther := func(it *Item) bool { return !it.IsAbout(addr) }
	about.Allocations = slices.DeleteFunc(slices.Clone(j.Allocations), isOther)
	about.Reservations = slices.DeleteFunc(slices.Clone(j.Reservations), isOther)
	return &about
}

// Summary has the counts of an assessment. InUse, Held and Stale are of allocations.
type Summary struct {
	Pools, Allocations, InUse, Held, Stale, Reservations int
	// Lone are the reservations without an allocation. All others share the verdict of their allocation.
	Lone     struct{ InUse, Held, Stale int }
	Findings int
}

// Summary counts the items of a judgement, and no findings.
func (j *Judgement) Summary() Summary {
	s := Summary{Pools: len(j.Observation.Pools), Allocations: len(j.Allocations), Reservations: len(j.Reservations)}
	for _, it := range j.Allocations {
		it.Verdict.count(&s.InUse, &s.Held, &s.Stale)
	}
	for _, it := range j.Reservations {
		if len(it.Related()) == 0 {
			it.Verdict.count(&s.Lone.InUse, &s.Lone.Held, &s.Lone.Stale)
		}
	}
	return s
}

func (v Verdict) count(inUse, held, stale *int) {
	switch v {
	case InUse:
		*inUse++
	case Held:
		*held++
	case Stale:
		*stale++
	}
}

// Stale is the number of allocations and reservations that are Stale.
func (j *Judgement) Stale() int { return len(j.StaleItems()) }
