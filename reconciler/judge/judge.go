package judge

import (
	"cmp"
	"fmt"
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
	// Total is the number of allocations that there are; a judgement of what has
	// changed has fewer.
	Total int

	x *Index
	// Partial: it is of what has changed, and of nothing else.
	Partial bool
}

// addTimeLimit is how long an ADD or DEL may keep a reservation without its entry
// (whereabouts v0.9.4, pkg/types/types.go, AddTimeLimit).
const addTimeLimit = 2 * time.Minute

// Judge gives everything observed its verdict. It does no I/O, and the same
// observation, past and policy always give the same judgement: the first pass, the
// second check before a write, the CLI on a folder and the Deployment all call it.
// past is nil where nothing is known of earlier observations.
func Judge(o *Observation, past Past, policy Policy) *Judgement {
	return NewIndex(o, past, policy).Judge()
}

// Judge is the judgement of all that the index stands for.
func (x *Index) Judge() *Judgement {
	w := x.judgeRecorded()
	w.out.Findings = w.findings()
	w.out.Recheck = x.nextRecheck(w.recheck)
	w.out.Total, w.out.x = len(w.out.Allocations), x
	return w.out
}

// judgeRecorded gives verdicts to all that is recorded.
func (x *Index) judgeRecorded() *verdicts {
	n := 0
	for _, p := range x.pools {
		p.first = n
		n += len(p.Allocations)
	}
	w := x.newVerdicts(n, len(x.reservations))
	for _, p := range x.pools {
		for i := range p.Allocations {
			w.allocation(p, &p.Allocations[i])
		}
	}
	item := func(e entry) *Item { return w.out.Allocations[e.pool.first+e.at] }
	reservations := x.reservations
	if slices.Contains(reservations, nil) {
		reservations = slices.DeleteFunc(slices.Clone(reservations), func(r *ippool.Reservation) bool { return r == nil })
	}
	if !slices.IsSortedFunc(reservations, byName) {
		reservations = slices.SortedStableFunc(slices.Values(reservations), byName)
	}
	for _, r := range reservations {
		w.reservation(r, x.readingsOf(w.readings[:0], r), item)
	}
	return w
}

// verdicts is one pass of giving verdicts.
type verdicts struct {
	x                       *Index
	out                     *Judgement
	shared                  *itemDetails // of all items that have nothing of their own
	items                   []Item
	recheck                 recheckTime // of what the verdicts ask of the clock
	agentNodesAdded         bool
	withoutReport           map[string]int // allocations that a node keeps from being judged
	withoutReportEverywhere int            // those that all nodes with an agent do
	candidate               candidate      // these are used again for each item
	evidence                Evidence
	reported                []reportEntry
	readings                []nameReading
	entries                 []entry
	ended                   []netip.Addr   // of entries whose sandbox is known not to run
	reserved                map[*Item]bool // allocations whose reservation has a field that is not known
}

func (x *Index) newVerdicts(allocations, reservations int) *verdicts {
	return &verdicts{
		x: x, recheck: recheckTime{now: x.now}, shared: &itemDetails{index: x}, withoutReport: map[string]int{}, items: make([]Item, 0, allocations+reservations),
		out: &Judgement{Observation: x.o, WithoutAgents: !x.inUse, Nodes: x.states,
			Allocations: make([]*Item, 0, allocations), Reservations: make([]*Item, 0, reservations)},
	}
}

func (w *verdicts) newItem(it Item) *Item {
	w.items = append(w.items, it)
	return &w.items[len(w.items)-1]
}

func (w *verdicts) allocation(p *pool, a *ippool.Allocation) *Item {
	x, e := w.x, &w.evidence
	it := w.newItem(Item{Pool: p.Pool, Allocation: a, details: w.shared})
	w.out.Allocations = append(w.out.Allocations, it)
	if a.Problem != "" {
		*e = Evidence{Problem: a.Problem, Detail: a.Detail, Owner: a.Owner, Sandbox: NoSource}
	} else {
		w.reported = x.reportEntries(w.reported[:0], a.ContainerID)
		w.candidate = candidate{pool: p, alloc: a, owner: a.Owner, reported: w.reported, pod: x.owner(a.Owner)}
		x.gather(&w.candidate, e)
	}
	it.Judged = x.rules.judge(e)
	w.addRecheck(e)
	w.addWithoutReport(e)
	if e.ended() && a.Problem == "" {
		w.ended = append(w.ended, a.Address)
	}
	if it.Verdict == InUse {
		return it
	}
	if a.Problem == "" {
		x.addClaims(&w.candidate, e)
	}
	x.rules.overrule(&it.Judged, e)
	kept := *e
	it.details = &itemDetails{index: x, evidence: &kept}
	return it
}

// evidenceOnAllocation is the evidence on one allocation.
func (x *Index) evidenceOnAllocation(p *pool, a *ippool.Allocation) *Evidence {
	s, e := &candidate{pool: p, alloc: a, owner: a.Owner, reported: x.reportEntries(nil, a.ContainerID), pod: x.owner(a.Owner)}, &Evidence{}
	x.gather(s, e)
	x.addClaims(s, e)
	return e
}

// reservation gives a reservation the verdict of its allocation, or judges one
// that has none by the same table.
func (w *verdicts) reservation(r *ippool.Reservation, readings []nameReading, item func(entry) *Item) {
	x, m := w.x, &itemDetails{index: w.x}
	it := w.newItem(Item{Reservation: r, details: m})
	w.out.Reservations = append(w.out.Reservations, it)
	w.recheck.add(r.Created.Add(addTimeLimit))
	w.readings = readings
	if len(readings) > 0 {
		m.reading = readings[0]
	}
	switch r.Problem {
	case "":
		w.allocationsOf(r, readings, item, m)
	case ippool.UnknownField:
		w.noteReserved(r, readings, item)
	}
	if len(m.related) > 0 {
		m.sharedWith = strictest(m.related)
		it.Judged = m.sharedWith.Judged
		for _, a := range m.related {
			w.addReservation(a, it)
		}
		return
	}
	if r.Problem != "" {
		m.evidence = &Evidence{Problem: r.Problem, Detail: r.Detail, Owner: r.Owner, Sandbox: NoSource}
	} else {
		m.evidence = x.evidenceOnReservation(r, readings)
	}
	it.Judged = x.rules.judge(m.evidence)
	x.rules.overrule(&it.Judged, m.evidence)
	w.addRecheck(m.evidence)
}

// noteReserved notes the allocations of a reservation with a field that is not known:
// it stands for nothing, and still is the reservation.
func (w *verdicts) noteReserved(r *ippool.Reservation, readings []nameReading, item func(entry) *Item) {
	var m itemDetails
	w.allocationsOf(r, readings, item, &m)
	for _, it := range m.related {
		if w.reserved == nil {
			w.reserved = map[*Item]bool{}
		}
		w.reserved[it] = true
	}
}

// addReservation notes that an allocation has a reservation.
func (w *verdicts) addReservation(a, r *Item) {
	switch {
	case a.details == w.shared && len(r.details.related) == 1:
		a.details, r.details.reserved[0] = r.details, r
		return
	case a.details == w.shared:
		a.details = &itemDetails{index: w.x}
	case a.details.reserved[0] != nil: // a second one
		first := a.details.reserved[0]
		first.details.reserved[0] = nil
		a.details = &itemDetails{index: w.x}
		a.details.addRelated(first)
	}
	a.details.addRelated(r)
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

// allocationsOf adds the allocations of the same address, network and podref.
func (w *verdicts) allocationsOf(r *ippool.Reservation, readings []nameReading, item func(entry) *Item, m *itemDetails) {
	for _, read := range readings {
		w.entries = w.x.entriesFor(w.entries[:0], read.address)
		for _, e := range w.entries {
			if e.pool.Namespace == r.Namespace && e.PodRef == r.PodRef && e.pool.isOfNetwork(read.network) {
				if it := item(e); it != nil && !slices.Contains(m.related, it) {
					m.addRelated(it)
				}
			}
		}
	}
}

func strictest(items []*Item) *Item {
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
	return slices.MinFunc(items, func(a, b *Item) int { return cmp.Compare(care(a.Judged), care(b.Judged)) })
}

// evidenceOnReservation gathers the evidence on a reservation without an allocation. Its
// sandbox is looked for by address and network.
func (x *Index) evidenceOnReservation(r *ippool.Reservation, readings []nameReading) *Evidence {
	e := &Evidence{Owner: r.Owner, Sandbox: NoSource}
	if len(readings) == 1 {
		s := &candidate{reservation: r, owner: r.Owner, network: readings[0].network, address: readings[0].address, pod: x.owner(r.Owner)}
		for _, b := range x.sandboxesAt(s.address) {
			// A leftover says nothing of what the reservation was made for.
			if b.NetworkName == s.network && x.holds(&b.reportEntry) {
				s.reported = append(s.reported, b.reportEntry)
			}
		}
		x.gather(s, e)
		x.addClaims(s, e)
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
	text := ""
	for i, r := range readings {
		if i > 0 {
			text += ", or "
		}
		text += fmt.Sprintf("%s in network %q", r.address, r.network)
	}
	return text
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
