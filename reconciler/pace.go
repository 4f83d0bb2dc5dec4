package reconciler

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// maxLeases is how many Leases are held at once.
const maxLeases = 16

// group is what is written under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one first: without it nothing can be done
	changes   []*change
}

// grouped puts together what can be written under one hold. The pools of node slices have a Lease each: several are
// held at once, since all of them also take the shared one, which must be left to others after each hold.
func grouped(changes []*change) []*group {
	var all []*group
	for _, c := range changes {
		at := slices.IndexFunc(all, func(g *group) bool { return g.namespace == c.namespace() && g.takes(c.leases) })
		if at < 0 {
			at = len(all)
			all = append(all, &group{namespace: c.namespace(), leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		for _, n := range c.leases {
			if !slices.Contains(g.leases, n) {
				g.leases = append(g.leases, n)
			}
		}
		g.changes = append(g.changes, c)
	}
	return all
}

// takes reports whether these Leases can be held with the group's.
func (g *group) takes(names []string) bool {
	more := 0
	for _, n := range names {
		if !slices.Contains(g.leases, n) {
			more++
		}
	}
	return more == 0 || len(g.leases)+more <= maxLeases
}

// batchSize is how many changes are tried under one hold. It follows what holds turn out to have room for, down and
// up again: one slow moment must not cost the rest of the run.
type batchSize struct {
	size    int
	longest time.Duration // a hold that takes longer is followed by a smaller one; 0 for any
}

const (
	// firstSize is what a hold of two seconds has room for on a server that needs some 2 ms for a change.
	firstSize = 1000
	// leastSize is how many changes are tried however long a hold of more took.
	leastSize = 32
	// quickHold is how long a hold may have taken for the next one to try more.
	quickHold = time.Second
)

// firstBatch is the size of the first batch of releases or repairs. Repairs behind the fence keep nobody waiting.
func firstBatch(isRepair, isFenced bool) batchSize {
	switch {
	case isRepair && isFenced:
		return batchSize{size: ippool.MaxRemovals, longest: quickHold}
	case isRepair:
		return batchSize{size: firstSize, longest: quickHold}
	}
	return batchSize{size: firstSize}
}

// spent takes note that a hold did not have room for n changes.
func (p *batchSize) spent(n int) { p.size = max(n/2, 1) }

// adjust takes note of how long a hold of n changes took, whether it dealt with all of them, and whether others
// waited for it.
func (p *batchSize) adjust(n int, took time.Duration, all, waitedFor bool) {
	switch {
	case waitedFor && p.longest > 0 && took > p.longest:
		p.size = max(min(p.size, n)/2, leastSize)
	case all && n >= p.size && took < quickHold:
		p.size = min(2*p.size, ippool.MaxRemovals)
	}
}
