// Package memory knows since when each verdict stands. What each pass has judged comes in. Out goes what judging asks
// of earlier observations, and when an unconfirmed verdict may be acted upon.
package memory

import (
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Memory is what the passes of one process have observed, as a value: nothing changes it, and each pass makes the next
// one. The zero Memory is that of a process that has just started, which makes releases slower and never wrong. Items
// that no longer exist are forgotten.
type Memory struct {
	items map[key]*item
	seeds [2]maphash.Seed // of the keys
	nodes nodes
	// unknown are the sources that were unknown in the last pass.
	unknown     map[facts.SourceName]bool
	oldestStale time.Time
}

// key is the hash of a judge.ID. Two of 250,000 items share one less often than a computer's memory fails.
type key [2]uint64

func (m Memory) keyOf(id judge.ID) key {
	return key{maphash.Comparable(m.seeds[0], id), maphash.Comparable(m.seeds[1], id)}
}

// item returns what is known of an item, the zero value for nothing.
func (m Memory) item(id judge.ID) item {
	if len(m.items) == 0 {
		return item{}
	}
	if known := m.items[m.keyOf(id)]; known != nil {
		return *known
	}
	return item{}
}

// Next is the memory after a full pass.
func (m Memory) Next(j *judge.Judgement) Memory {
	next := Memory{seeds: m.seeds, nodes: m.nodes.next(j), unknown: map[facts.SourceName]bool{},
		items: make(map[key]*item, len(j.Allocations)+len(j.Reservations))}
	if m.items == nil {
		next.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	}
	isInterrupted := false
	for _, s := range j.Observation.UnknownSources() {
		next.unknown[s.Name] = true
		// What these could contradict is Held itself, and a pod's owner can have anything depend on them, or nothing.
		isOfMachines := s.Name == facts.SourceGuests || s.Name == facts.SourceClaims
		isInterrupted = isInterrupted || !m.unknown[s.Name] && !isOfMachines
	}
	if isInterrupted {
		m = m.Unconfirmed() // what was held for lack of evidence has not waited
	}
	for _, all := range [][]*judge.Item{j.Allocations, j.Reservations} {
		for _, it := range all {
			at := next.keyOf(it.ID())
			known := m.items[at]
			if known == nil {
				known = &item{first: j.Observation.Now}
			}
			known = known.next(it, j.Observation, &next.nodes)
			next.items[at] = known
			if since := known.staleSince(); !since.IsZero() && (next.oldestStale.IsZero() || since.Before(next.oldestStale)) {
				next.oldestStale = since
			}
		}
	}
	return next
}

// Unconfirmed is the memory in which the wait of every unconfirmed item starts again.
func (m Memory) Unconfirmed() Memory {
	m.items = maps.Clone(m.items)
	for at, known := range m.items {
		if known.confirmation != nil {
			m.items[at] = known.with(nil)
		}
	}
	return m
}

// Without is the memory in which the wait of these items starts again, because they were judged otherwise since the
// last pass, as here.
func (m Memory) Without(contradicted []*judge.Item) Memory {
	if len(contradicted) == 0 {
		return m
	}
	m.items = maps.Clone(m.items)
	for _, it := range contradicted {
		at := m.keyOf(it.ID())
		if known := m.items[at]; known != nil {
			m.items[at] = known.with(known.confirmation.without(it))
		}
	}
	return m
}

// OldestStale is since when the oldest of the Stale items is Stale; zero for none.
func (m Memory) OldestStale() time.Time { return m.oldestStale }

// Expected returns the nodes that had to report in earlier passes, each with the time at which it joined.
func (m Memory) Expected() map[string]time.Time { return m.nodes.expected() }

// Of returns what is known of an allocation or a reservation.
func (m Memory) Of(id judge.ID) judge.ItemHistory {
	s := m.item(id)
	past := s.pods()
	known := judge.ItemHistory{First: s.first, StaleSince: s.staleSince(), RanOn: past.ranOn, CarriedOn: past.carriedOn,
		RanOnlyThere: past.hasNameAlone}
	if s.pod != nil {
		known.RanOn = withNode(past.ranOn, s.pod.node)
		known.RanOnlyThere = s.pod.hasUniqueName && len(known.RanOn) == 1
	}
	if s.confirmation != nil {
		known.UncontradictedSince = s.confirmation.uncontradictedSince.at
	}
	return known
}

// withNode is a list with a node, which is not added twice; "" is none.
func withNode(nodes []string, node string) []string {
	if node == "" || slices.Contains(nodes, node) {
		return nodes
	}
	return append(slices.Clip(nodes), node)
}
