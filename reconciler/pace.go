package reconciler

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// maxLeases is how many Leases are held at once.
const maxLeases = 16

// group is what is written under the same Leases.
type group[T any] struct {
	namespace string
	leases    []string // the shared one first: without it nothing can be done
	items     []T
}

// grouped puts together what can be written under one hold. The pools of node
// slices have a Lease each: several are held at once, since all of them also
// take the shared one, which must be left to others after each hold.
func grouped[T any](items []T, leasesOf func(T) (namespace string, names []string)) []*group[T] {
	var all []*group[T]
	for _, it := range items {
		namespace, names := leasesOf(it)
		at := slices.IndexFunc(all, func(g *group[T]) bool { return g.namespace == namespace && g.takes(names) })
		if at < 0 {
			at = len(all)
			all = append(all, &group[T]{namespace: namespace, leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		for _, n := range names {
			if !slices.Contains(g.leases, n) {
				g.leases = append(g.leases, n)
			}
		}
		g.items = append(g.items, it)
	}
	return all
}

// takes reports whether these Leases can be held with the group's.
func (g *group[T]) takes(names []string) bool {
	more := 0
	for _, n := range names {
		if !slices.Contains(g.leases, n) {
			more++
		}
	}
	return more == 0 || len(g.leases)+more <= maxLeases
}

// batchSize is how many items are tried under one hold. It follows what holds turn
// out to have room for, down and up again: one slow moment must not cost the
// rest of the run.
type batchSize struct{ size int }

const (
	// firstSize is what a hold of two seconds has room for on a server that
	// needs some 2 ms for an item.
	firstSize = 1000
	// quickHold is how long a hold may have taken for the next one to try more.
	quickHold = time.Second
)

func newPace(fenced bool) batchSize {
	if fenced {
		return batchSize{ippool.MaxRemovals} // nobody waits for a Lease
	}
	return batchSize{firstSize}
}

// spent takes note that a hold did not have room for n items.
func (p *batchSize) spent(n int) { p.size = max(n/2, 1) }

// fits takes note that all of n items were dealt with, and how long it took.
func (p *batchSize) fits(n int, took time.Duration) {
	if n >= p.size && took < quickHold {
		p.size = min(2*p.size, ippool.MaxRemovals)
	}
}
