package reconciler

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

var errLeaseMissing = errors.New("a pool's own Lease was busy with ADDs and DELs each time")

// attempt prepares the items without any Lease, and then, under the Leases,
// checks what can have changed since and writes. It returns the items that must
// be tried again, and an error where that is for a reason; ErrConflict says that
// something had changed. Where some items got through the error counts for little.
func (b *batch) attempt(ctx context.Context, todo []*releaseAttempt, try int) (left []*releaseAttempt, err error) {
	if err := b.refresh(ctx); err != nil {
		return todo, err
	}
	if b.observation().Paused { // then ADDs need not wait for us
		b.abandon(ctx, todo, Paused, everythingPaused())
		return nil, nil
	}
	ready, err := b.prepare(ctx, todo)
	if err != nil || len(ready.items) == 0 {
		return ready.items, err
	}
	w := &heldRelease{batch: b, ready: ready, left: ready.items, size: len(todo), reread: try > 1, asked: b.Clock.Now()}
	err = b.Writer.Hold(ctx, b.namespace, b.leases, w.run)
	w.log(err)
	if slices.ContainsFunc(w.left, (*releaseAttempt).begun) {
		// A write failed after reservations were deleted: whatever proves live
		// must have its own back at once, not at the next turn with the Lease.
		if still, changed, checkErr := b.recheck(ctx, w.left, true); checkErr == nil {
			w.left = slices.Concat(still, changed)
		}
	}
	return w.left, err
}

// prepared is what is made ready before the Lease is taken.
type prepared struct {
	items   []*releaseAttempt
	patches map[string]*poolPatch // by pool
}

// poolPatch removes entries from a pool as it was read. It was checked against
// that, and is of no use for another resourceVersion or other entries.
type poolPatch struct {
	pool    *ippool.Pool
	entries int
	patch   []byte
}

// prepare judges the items on what was read last and builds the patches that
// release them. An item of which something was written already is left to the
// live read: only that knows whether its pod has come back, and what was deleted
// must then be put back.
func (b *batch) prepare(ctx context.Context, todo []*releaseAttempt) (prepared, error) {
	var begun, fresh []*releaseAttempt
	for _, t := range todo {
		if t.begun() {
			begun = append(begun, t)
		} else {
			fresh = append(fresh, t)
		}
	}
	fresh = b.judge(ctx, fresh)
	ready := prepared{items: slices.Concat(begun, fresh), patches: map[string]*poolPatch{}}
	for pool, items := range byPool(fresh) {
		patch, err := ippool.RemovePatch(pool, entriesOf(items))
		if err != nil {
			return ready, err
		}
		ready.patches[pool.Ref()] = &poolPatch{pool, len(items), patch}
	}
	return ready, nil
}

// begun reports whether something was written for the item.
func (t *releaseAttempt) begun() bool { return len(t.deleted) > 0 || t.sent }

func byPool(items []*releaseAttempt) map[*ippool.Pool][]*releaseAttempt {
	pools := map[*ippool.Pool][]*releaseAttempt{}
	for _, t := range items {
		if t.Pool != nil {
			pools[t.Pool] = append(pools[t.Pool], t)
		}
	}
	return pools
}

// recheck is the second check: it reads live what can have changed, and judges
// again. It returns what is still Stale, and the items of pools that have changed
// and were not read in full.
func (b *batch) recheck(ctx context.Context, todo []*releaseAttempt, reread bool) (still, changed []*releaseAttempt, err error) {
	need := b.liveKeys(todo)
	need.Reread = reread
	live, err := b.read(ctx, need)
	if err != nil {
		return todo, nil, err
	}
	var judged []*releaseAttempt
	for _, t := range todo {
		if slices.ContainsFunc(t.poolNames(), func(pool types.NamespacedName) bool { return live.Changed[pool] }) {
			changed = append(changed, t)
			continue
		}
		t.unsure = false
		judged = append(judged, t)
	}
	return b.judge(ctx, judged), changed, nil
}

// judge judges items again. What is no longer Stale gets back the reservations that
// were deleted for it, and so does whatever else needs them.
func (b *batch) judge(ctx context.Context, todo []*releaseAttempt) []*releaseAttempt {
	addresses := make([]netip.Addr, 0, len(todo))
	for _, t := range todo {
		addresses = append(addresses, t.Address())
		for _, r := range t.Related() {
			addresses = append(addresses, r.Address()) // in a wide range not the one that reads back from the key
		}
	}
	j := b.x.JudgeAddresses(sortedAddresses(addresses))
	now := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		now[it.ID()] = it
	}
	b.History.noteRestores(j.Observation)     // this check may be the first that has an agent's word
	plan := b.History.passGates(j, b.Options) // the breaker was asked before
	refused := map[judge.ID]Refused{}
	for _, x := range plan.Refused {
		refused[x.ID()] = x
	}
	var still, done []*releaseAttempt
	for _, t := range todo {
		it, there := now[t.ID()]
		switch {
		case !there && t.sent && b.observation().EntryRemoved(t.Item):
			done = append(done, t) // the answer was lost, the write was not
		case !there:
			b.Log.Info("not released: it is gone or was rewritten since the first check", t.Attrs()...)
		case it.Reservation != nil && len(it.Related()) > 0:
			b.Log.Info("not released: an allocation of this reservation has appeared", it.Attrs()...)
		case it.Verdict != judge.Stale:
			b.Log.Info("not released: the live read contradicts", it.Attrs()...)
			b.History.contradicted(t.Item, it)
		case !b.Options.inScope(it):
			b.Log.Info("not released: by the live read it is none of those asked for", it.Attrs()...)
		case refused[t.ID()].Item != nil:
			b.out.refuse(refused[t.ID()])
		default:
			t.Item = it
			still = append(still, t)
		}
	}
	b.rollback(ctx, todo, still, j)
	for _, t := range done {
		b.finish(t)
	}
	return still
}

func sortedAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// liveKeys names what the second check of items reads. A reservation that is known
// is not read: its delete tests the UID and the resourceVersion, which is the
// same check, made at the moment that counts.
func (b *batch) liveKeys(todo []*releaseAttempt) LiveKeys {
	var n LiveKeys
	for _, t := range todo {
		if t.unsure && t.Reservation != nil {
			n.Reservations = append(n.Reservations, types.NamespacedName{Namespace: t.Reservation.Namespace, Name: t.Reservation.Name})
		}
		if t.Pool != nil && (t.unsure || len(t.Related()) == 0) {
			n.Reservations = append(n.Reservations, b.observation().ReservationsOf(t.Item)...)
		}
		n.Pools = append(n.Pools, t.poolNames()...)
		if owner := t.Owner(); owner.UID == "" {
			n.Pods = append(n.Pods, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
		}
	}
	n.Pools, n.Reservations, n.Pods = uniqueNames(n.Pools), uniqueNames(n.Reservations), uniqueNames(n.Pods)
	return n
}

func uniqueNames(names []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(names)
}
