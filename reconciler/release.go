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
	sorted := make([]*tracked, 0, len(items))
	for _, it := range items {
		sorted = append(sorted, &tracked{Item: it, leases: it.leaseNames()})
	}
	slices.SortStableFunc(sorted, func(a, b *tracked) int { return byPlace(a.Item, b.Item) })
	for _, g := range grouped(sorted, func(t *tracked) (string, []string) { return t.namespace(), t.leases }) {
		b := &batch{basis: basis{Reconciler: r, first: o}, namespace: g.namespace, leases: g.leases, out: out, pace: newPace(r.Options.Settled)}
		b.run(ctx, g.items)
	}
}

func (t *tracked) namespace() string {
	if t.Pool != nil {
		return t.Pool.Namespace
	}
	return t.Reservation.Namespace
}

// leaseNames are the Leases that ADD and DEL of an item's pool take.
func (it *Item) leaseNames() []string {
	if it.Pool != nil {
		return it.Pool.LeaseNames()
	}
	names := []string{ippool.SharedLease}
	for _, p := range it.poolsWith() {
		names = append(names, p.LeaseNames()...)
	}
	return sortedUnique(names)
}

// batch releases items whose writes go under the same Leases.
type batch struct {
	basis
	namespace string
	leases    []string
	out       *Result
	pace      pace
}

// run releases the items, so many at a time as a hold has room for.
func (b *batch) run(ctx context.Context, todo []*tracked) {
	for try, lost := 1, 0; len(todo) > 0; {
		n := min(b.pace.size, len(todo))
		begun := countBegun(todo[:n])
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
		case spent && countBegun(left) > begun: // the next hold goes on with them
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

func countBegun(items []*tracked) (n int) {
	for _, t := range items {
		if t.begun() {
			n++
		}
	}
	return n
}
