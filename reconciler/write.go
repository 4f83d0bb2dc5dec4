package reconciler

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// writeMargin is how long before the end of a hold nothing is written any more:
// a write that is slow to arrive must still arrive within it.
const writeMargin = 300 * time.Millisecond

// MayWrite says whether enough is left of a hold to begin a write.
func MayWrite(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(end) > writeMargin)
}

// write deletes the reservations and then removes the entries.
func (b *batch) write(ctx context.Context, still []*tracked) (again []*tracked, err error) {
	var ready []*tracked
	again, ready, err = b.deleteReservations(ctx, still)
	byPool := map[*ippool.Pool][]*tracked{}
	for _, t := range ready {
		if t.Reservation != nil {
			b.finish(t)
			continue
		}
		byPool[t.Pool] = append(byPool[t.Pool], t)
	}
	pools := slices.SortedFunc(maps.Keys(byPool), func(x, y *ippool.Pool) int { return cmp.Compare(x.Ref(), y.Ref()) })
	for _, p := range pools {
		if perr := b.patch(ctx, p, byPool[p]); perr != nil {
			again, err = append(again, byPool[p]...), cmp.Or(err, perr)
			if errors.Is(err, ErrConflict) {
				b.conflict, err = err, nil // that pool alone is concerned, and is read anew
				b.out.Conflicts++
			}
			continue
		}
		for _, t := range byPool[p] {
			b.finish(t)
		}
	}
	return again, err
}

// finish records that an item was released, with its reservations.
func (b *batch) finish(t *tracked) {
	for _, res := range t.deleted {
		b.done(b.out, t.withReservation(res), b.base)
	}
	b.done(b.out, t.Item, b.base)
	t.deleted, t.sent = nil, false
}

// lacks says whether an allocation's pool was read and has nothing under its key.
func (o *Observation) lacks(it *Item) bool {
	for _, p := range o.Pools {
		if it.Pool != nil && p.Ref() == it.Object() {
			return p.Find(it.Key()) == nil
		}
	}
	return false
}

// deleteReservations deletes what goes before its entry. An item of which one
// was not deleted keeps its entry for now.
func (b *batch) deleteReservations(ctx context.Context, still []*tracked) (again, ready []*tracked, err error) {
	if !MayWrite(ctx) {
		return still, nil, ErrHoldSpent
	}
	leaving := map[ID]bool{}
	for _, t := range still {
		leaving[t.ID()] = true
	}
	mine := map[*ippool.Reservation]bool{} // one that two entries share is deleted once
	todo := make([][]*ippool.Reservation, len(still))
	for i, t := range still {
		for _, res := range t.reservations(leaving) {
			if !mine[res] {
				mine[res] = true
				todo[i] = append(todo[i], res)
			}
		}
	}
	errs := make([]error, len(still))
	var g errgroup.Group
	g.SetLimit(16)
	for i, t := range still {
		g.Go(func() error {
			for _, res := range todo[i] {
				if !MayWrite(ctx) {
					errs[i] = ErrHoldSpent
					return nil
				}
				errs[i] = b.Writer.DeleteReservation(ctx, res)
				// An error may hide that it is gone: then it must be put back all the same.
				if t.Allocation != nil && !errors.Is(errs[i], ErrConflict) {
					t.noteDeleted(res)
				}
				if errs[i] != nil {
					return nil
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	for i, t := range still {
		if errs[i] == nil {
			ready = append(ready, t)
			continue
		}
		again = append(again, t)
		if !errors.Is(errs[i], ErrConflict) {
			err = errs[i]
		}
	}
	return again, ready, err
}

func (t *tracked) noteDeleted(res *ippool.Reservation) {
	if !slices.ContainsFunc(t.deleted, func(x *ippool.Reservation) bool { return x.UID == res.UID && x.Ref() == res.Ref() }) {
		t.deleted = append(t.deleted, res)
	}
}

// reservations are those to delete for an item: its own, where it is one; else
// the ones that no allocation needs which is not leaving as well.
func (t *tracked) reservations(leaving map[ID]bool) []*ippool.Reservation {
	if t.Reservation != nil {
		return []*ippool.Reservation{t.Reservation}
	}
	var all []*ippool.Reservation
	for _, r := range t.With() {
		if r.Verdict == Stale && !slices.ContainsFunc(r.With(), func(a *Item) bool { return !leaving[a.ID()] }) {
			all = append(all, r.Reservation)
		}
	}
	return all
}

func (t *tracked) withReservation(res *ippool.Reservation) *Item {
	for _, r := range t.With() {
		if r.Reservation == res {
			return r
		}
	}
	return t.Item.reserved(res)
}

func (b *batch) patch(ctx context.Context, p *ippool.Pool, items []*tracked) error {
	var entries []ippool.Allocation
	for _, t := range items {
		entries = append(entries, *t.Allocation)
	}
	patch, err := ippool.RemovePatch(p, entries)
	if err != nil {
		return err
	}
	if !MayWrite(ctx) {
		return ErrHoldSpent
	}
	err = b.Writer.PatchPool(ctx, p, patch)
	for _, t := range items {
		t.sent = err != nil && !errors.Is(err, ErrConflict)
	}
	return err
}
