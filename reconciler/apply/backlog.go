package apply

import (
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	firstBatch = 1000 // how many changes the first hold tries: 2 s of a server that needs 2 ms a change
	maxBatch   = 2500 // how many changes one hold tries at most; one patch takes ippool.MaxRemovals
	// maxEntries is how many entries the pools that one hold patches have at most. A patch costs the API server the whole
	// pool, about 0.1 ms of a core for each entry.
	maxEntries = 20000
	maxTries   = 6                      // after so many failures a change is given up until the next pass
	firstPause = 200 * time.Millisecond // after the first failure of a change; it doubles with each one
	maxPause   = 10 * time.Second
)

// backlog has the changes that have not ended and that no hold has taken, in the order in which holds take them.
type backlog[C Change] struct {
	waiting  []C
	size     int // how many changes the next hold takes at most
	failures workqueue.TypedRateLimiter[Change]
}

func newBacklog[C Change](changes []C) *backlog[C] {
	return &backlog[C]{
		waiting: changes, size: firstBatch,
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[Change](firstPause, maxPause),
	}
}

// take removes the changes that the next hold tries, and returns them and the pause before it. Half-done changes have
// a hold of their own: they are completed before more reservations are deleted.
func (b *backlog[C]) take(now time.Time) (batch []C, pause time.Duration) {
	at := b.waiting[0].soFar().retryAt
	for _, c := range b.waiting {
		if t := c.soFar().retryAt; t.Before(at) {
			at = t
		}
	}
	if at.Before(now) {
		at = now
	}
	due, later := partition(b.waiting, func(c C) bool { return !c.soFar().retryAt.After(at) })
	if halfDone, others := partition(due, C.isPartial); len(halfDone) > 0 {
		due, later = halfDone, slices.Concat(others, later)
	}
	n := countAffordable(due[:min(b.size, len(due))])
	b.waiting = slices.Concat(due[n:], later)
	return due[:n], at.Sub(now)
}

// countAffordable is how many of the first changes have pools that one hold can patch: at least those of one pool.
func countAffordable[C Change](queue []C) int {
	pools, entries := map[string]bool{}, 0
	for i, c := range queue {
		if p := c.Steps().Pool; p != nil && !pools[p.Ref()] {
			pools[p.Ref()] = true
			if entries += len(p.Allocations); entries > maxEntries && len(pools) > 1 {
				return i
			}
		}
	}
	return len(queue)
}

// putFirst puts back changes for which their hold had no time. What was read for them is read again for the next hold.
func (b *backlog[C]) putFirst(changes []C) { b.waiting = slices.Concat(changes, b.waiting) }

// retry counts a failure of a change, and puts it back at the end, unless it has failed too often.
func (b *backlog[C]) retry(c C, now time.Time) (isBack bool) {
	pause := b.failures.When(c)
	if b.tries(c) >= maxTries {
		return false
	}
	c.soFar().retryAt = now.Add(pause)
	b.waiting = append(b.waiting, c)
	return true
}

// tries is how often a change has failed.
func (b *backlog[C]) tries(c C) int { return b.failures.NumRequeues(c) }

// resize decides how many changes the next hold takes. moved is how many of those that the last one took it brought
// further. One slow moment must not cost the rest of the run, so the size doubles again.
func (b *backlog[C]) resize(taken, moved int, isSpent, hasEndedAll bool) {
	switch {
	case isSpent:
		b.size = max(taken/2, moved, 1)
	case hasEndedAll:
		b.size = min(2*b.size, maxBatch)
	}
}
