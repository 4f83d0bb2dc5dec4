package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// tries is how often items are read, judged and written again without any
	// of them getting through, before they are left for the next pass.
	tries = 6
	// triesSpent is how often for an item for which alone a hold has no room: that
	// takes 5 s each time, and others are kept waiting.
	triesSpent = 3
	// maxLost is after how many abandonments for an error the rest of a pool is
	// not tried any more: then it is not the items that fail.
	maxLost = 3
	// maxLostInAll is after how many over all pools the rest of the batch is not.
	maxLostInAll = 3 * maxLost
)

// releaseAttempt is an item on its way to being released.
type releaseAttempt struct {
	*judge.Item
	leases  []string
	pools   []types.NamespacedName // that may have entries which need its reservations
	deleted []*ippool.Reservation  // so far, for this item
	sent    bool                   // a patch was sent, and its outcome is not known
	unsure  bool                   // what was read of its reservations may no longer hold
	failed  error                  // why its last write failed; nil where none did
}

// release makes the second check of each item and releases what is still Stale.
// One batch that fails does not stop the others.
func (r *Reconciler) release(ctx context.Context, x *judge.Index, items []*judge.Item, out *Result) {
	if len(items) == 0 {
		return
	}
	live, sorted := &liveIndex{Reconciler: r, first: x.Observation()}, make([]*releaseAttempt, 0, len(items))
	for _, it := range items {
		sorted = append(sorted, &releaseAttempt{Item: it, leases: it.LeaseNames(), pools: it.PoolNames()})
	}
	slices.SortStableFunc(sorted, func(a, b *releaseAttempt) int { return judge.ByPlace(a.Item, b.Item) })
	for _, g := range grouped(sorted, func(t *releaseAttempt) (string, []string) { return t.namespace(), t.leases }) {
		b := &batch{liveIndex: live, namespace: g.namespace, leases: g.leases, out: out, pace: newPace(false), told: map[string]bool{}, lost: map[string]int{}, conflicted: map[string]string{}}
		b.run(ctx, g.items)
	}
}

func (t *releaseAttempt) namespace() string {
	if t.Pool != nil {
		return t.Pool.Namespace
	}
	return t.Reservation.Namespace
}

// poolNames are those of before a reservation was deleted, too: they do not follow
// from what is read then.
func (t *releaseAttempt) poolNames() []types.NamespacedName {
	return uniqueNames(slices.Concat(t.pools, t.Item.PoolNames()))
}

// batch releases items whose writes go under the same Leases.
type batch struct {
	*liveIndex
	namespace string
	leases    []string
	out       *Result
	pace      batchSize
	told      map[string]bool // reservations whose release was recorded
	lost      map[string]int  // abandonments for an error, by pool
	// conflicted has the resourceVersion at which the last patch of a pool met a conflict.
	conflicted map[string]string
}

// run releases the items, so many at a time as a hold has room for. What a hold
// had no time for comes first under the next one; what failed lets others go first.
func (b *batch) run(ctx context.Context, todo []*releaseAttempt) {
	spent := false
	for try := 1; len(todo) > 0; {
		n := min(b.pace.size, len(todo))
		begun := countBegun(todo[:n])
		if spent && begun > 0 { // no more reservations are deleted before these have their entries removed
			n = begun
		}
		b.progress("releasing in namespace %s: %d to go", b.namespace, len(todo))
		left, err := b.attempt(ctx, todo[:n], try)
		if err == nil && len(left) > 0 {
			err = ErrConflict
		}
		rest := todo[n:]
		if left = b.abandonDenied(ctx, left); errors.Is(err, ErrForbidden) && len(left) > 0 {
			err = ErrConflict // of the others nothing is known but that they were not written
		}
		changed, missing := errors.Is(err, ErrConflict), errors.Is(err, errLeaseMissing)
		if spent = errors.Is(err, ErrHoldSpent); spent {
			slices.SortStableFunc(left, begunFirst)
			todo = slices.Concat(left, rest)
		} else {
			todo = slices.Concat(rest, left)
		}
		switch {
		case errors.Is(err, ErrLeaseForbidden):
			b.abandon(ctx, todo, NoLease, noLease(b.namespace, b.leases))
			return
		case errors.Is(err, ErrLeaseBusy):
			b.abandon(ctx, todo, LeaseBusy, fmt.Sprintf("Lease %s in namespace %s stayed busy with ADDs and DELs; run again", strings.Join(b.leases, ", "), b.namespace))
			return
		case errors.Is(err, ErrLeaseFailed), ctx.Err() != nil:
			b.abandon(ctx, todo, WriteFailed, cmp.Or(err, ctx.Err()).Error())
			return
		case len(left) < n: // some got through: what is left has not been tried in vain
			try = 1
			continue
		case spent && countBegun(left) > begun: // the next hold goes on with them
			continue
		case spent && n > 1, !changed && !missing && n > 1 && try > 1: // one of them may be what fails
			b.pace.spent(n)
			try = 1
		case try < tries && !spent, try < triesSpent:
			try++
		case changed:
			b.abandon(ctx, left, Changed, fmt.Sprintf("it changed at each of %d tries: %v", try, err))
			todo, try = rest, 1
		case missing:
			b.abandon(ctx, left, LeaseBusy, fmt.Sprintf("%v; run again", err))
			todo, try = rest, 1
		default:
			b.abandon(ctx, left, WriteFailed, err.Error())
			todo, try = b.withoutLost(ctx, rest, left[0], err), 1
		}
		b.wait(ctx, 100*time.Millisecond<<try)
	}
}

// abandonDenied abandons the items whose write is not allowed: to try it again
// would be useless. It returns the others, which may be allowed.
func (b *batch) abandonDenied(ctx context.Context, left []*releaseAttempt) (others []*releaseAttempt) {
	var denied []*releaseAttempt
	for _, t := range left {
		if !errors.Is(t.failed, ErrForbidden) {
			others = append(others, t)
			continue
		}
		denied = append(denied, t)
		b.out.refuse(refusedBecause(t.Item, WriteFailed, t.failed.Error()))
	}
	b.recreateAll(denied)
	return others
}

// withoutLost counts an item that was abandoned for an error, and abandons others
// of its pool, or all, where so many were that it is not the items that fail.
func (b *batch) withoutLost(ctx context.Context, todo []*releaseAttempt, t *releaseAttempt, err error) []*releaseAttempt {
	pool := ""
	if t.Pool != nil {
		pool = t.Object()
	}
	b.lost[pool]++
	inAll := 0
	for _, n := range b.lost {
		inAll += n
	}
	var lost, others []*releaseAttempt
	for _, x := range todo {
		same := x.Pool == nil && pool == "" || x.Pool != nil && x.Object() == pool
		if same && b.lost[pool] >= maxLost || inAll >= maxLostInAll {
			lost = append(lost, x)
		} else {
			others = append(others, x)
		}
	}
	b.abandon(ctx, lost, WriteFailed, err.Error())
	return others
}

func begunFirst(a, b *releaseAttempt) int {
	switch {
	case a.begun() == b.begun():
		return 0
	case a.begun():
		return -1
	}
	return 1
}

func countBegun(items []*releaseAttempt) (n int) {
	for _, t := range items {
		if t.begun() {
			n++
		}
	}
	return n
}
