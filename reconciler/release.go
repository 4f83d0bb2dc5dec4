package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const (
	// maxLeases is how many Leases are held at once.
	maxLeases = 16
	// tries is how often items are read, judged and written again without any
	// of them getting through, before they are left for the next pass.
	tries = 6
	// triesSpent is how often for an item for which alone a hold has no room: that
	// takes 5 s each time, and others are kept waiting.
	triesSpent = 3
	// maxLost is after how many items abandoned in a row for an error the others
	// are not tried any more: then it is not the items that fail.
	maxLost = 3
)

// tracked is an item on its way to being released.
type tracked struct {
	*Item
	leases  []string
	deleted []*ippool.Reservation // so far, for this item
	sent    bool                  // a patch was sent, and its outcome is not known
	unsure  bool                  // what was read of its reservations may no longer hold
}

// release makes the second check of each item and releases what is still Stale.
// One batch that fails does not stop the others.
func (r *Reconciler) release(ctx context.Context, o *Observation, items []*Item, out *Result) {
	for _, g := range groups(o, items) {
		b := &batch{Reconciler: r, namespace: g.namespace, leases: g.leases, out: out, base: o, pace: newPace(r.Options.Settled)}
		b.run(ctx, g.items)
	}
}

// group are items that are released under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one first: without it nothing can be done
	items     []*tracked
}

// groups puts together what can be released under one hold. The pools of node
// slices have a Lease each: several are held at once, since all of them also
// take the shared one, which must be left to others after each hold.
func groups(o *Observation, items []*Item) []*group {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, byPlace)
	var all []*group
	for _, it := range sorted {
		namespace, names := o.leasesFor(it)
		var g *group
		for _, x := range all {
			if x.namespace == namespace && x.takes(names) {
				g = x
				break
			}
		}
		if g == nil {
			g = &group{namespace: namespace, leases: []string{ippool.SharedLease}}
			all = append(all, g)
		}
		for _, n := range names {
			if !slices.Contains(g.leases, n) {
				g.leases = append(g.leases, n)
			}
		}
		g.items = append(g.items, &tracked{Item: it, leases: names})
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
	return more == 0 || len(g.leases)+more <= maxLeases || len(g.items) == 0
}

// leasesFor are the Leases that ADD and DEL of an item's pool take.
func (o *Observation) leasesFor(it *Item) (namespace string, names []string) {
	if it.Pool != nil {
		return it.Pool.Namespace, it.Pool.LeaseNames()
	}
	for _, p := range o.poolsWith(it) {
		names = append(names, p.LeaseNames()...)
	}
	return it.Reservation.Namespace, sortedUnique(append(names, ippool.SharedLease))
}

// batch releases items whose writes go under the same Leases.
type batch struct {
	*Reconciler
	namespace string
	leases    []string
	out       *Result
	// base is what was read last: by Refresh, with what live reads found and
	// our own writes did since.
	base      *Observation
	refreshed time.Time
	pace      pace
}

// run releases the items, so many at a time as a hold has room for.
func (b *batch) run(ctx context.Context, todo []*tracked) {
	for try, lost := 1, 0; len(todo) > 0; {
		n := min(b.pace.size, len(todo))
		begun := count(todo[:n], (*tracked).begun)
		b.progress("releasing in namespace %s: %d to go", b.namespace, len(todo))
		left, err := b.attempt(ctx, todo[:n], try)
		rest := todo[n:]
		todo = slices.Concat(left, rest)
		if err == nil && len(left) > 0 {
			err = ErrConflict
		}
		changed, spent := errors.Is(err, ErrConflict), errors.Is(err, ErrHoldSpent)
		switch {
		case errors.Is(err, ErrLeaseForbidden):
			b.abandon(ctx, todo, NoLease, fmt.Sprintf("no right to whereabouts' Lease %s in namespace %s: grant get, create and update on leases, or use --without-lease", strings.Join(b.leases, ", "), b.namespace))
			return
		case errors.Is(err, ErrForbidden):
			b.abandon(ctx, todo, WriteFailed, fmt.Sprintf("%v: grant patch on ippools, and create and delete on overlappingrangeipreservations (%s)", err, ippool.PoolResource.Group))
			return
		case errors.Is(err, ErrLeaseBusy):
			b.abandon(ctx, todo, LeaseBusy, fmt.Sprintf("Lease %s in namespace %s stayed busy with ADDs and DELs; run again", strings.Join(b.leases, ", "), b.namespace))
			return
		case ctx.Err() != nil:
			b.abandon(ctx, todo, WriteFailed, cmp.Or(err, ctx.Err()).Error())
			return
		case len(left) < n: // some got through: what is left has not been tried in vain
			try, lost = 1, 0
			continue
		case spent && count(left, (*tracked).begun) > begun: // the next hold goes on with them
			continue
		case lost == maxLost:
			b.abandon(ctx, todo, WriteFailed, err.Error())
			return
		case spent && n > 1:
			b.pace.spent(n)
			try = 1
		case !changed && n > 1 && try > 1: // one of them may be what fails
			b.pace.spent(n)
			try = 1
		case try < tries && !spent, try < triesSpent:
			try++
		case changed:
			b.abandon(ctx, left, Changed, fmt.Sprintf("it changed at each of %d tries: %v", try, err))
			todo, try = rest, 1
		case errors.Is(err, errLeaseMissing):
			b.abandon(ctx, left, LeaseBusy, fmt.Sprintf("%v; run again", err))
			todo, try = rest, 1
		default:
			b.abandon(ctx, left, WriteFailed, err.Error())
			todo, try, lost = rest, 1, lost+1
		}
		b.wait(ctx, 100*time.Millisecond<<try)
	}
}

func count(items []*tracked, is func(*tracked) bool) (n int) {
	for _, t := range items {
		if is(t) {
			n++
		}
	}
	return n
}

// pace is how many items are tried under one hold. It follows what holds turn
// out to have room for, down and up again: one slow moment must not cost the
// rest of the run.
type pace struct{ size int }

const (
	// firstSize is what a hold of two seconds has room for on a server that
	// needs some 2 ms for an item.
	firstSize = 1000
	// quick is how long a hold may have taken for the next one to try more.
	quick = time.Second
)

func newPace(settled bool) pace {
	if settled {
		return pace{ippool.MaxRemovals} // nobody waits for a Lease
	}
	return pace{firstSize}
}

// spent takes note that a hold did not have room for n items.
func (p *pace) spent(n int) { p.size = max(n/2, 1) }

// fits takes note that all of n items were dealt with, and how long it took.
func (p *pace) fits(n int, took time.Duration) {
	if n >= p.size && took < quick {
		p.size = min(2*p.size, ippool.MaxRemovals)
	}
}
