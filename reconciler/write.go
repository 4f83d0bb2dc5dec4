package reconciler

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// parallelWrites is how many reservations are deleted or created at once.
const parallelWrites = 16

// write deletes the reservations of the items and then removes their entries,
// pool by pool. It returns the items of which something failed.
func (b *batch) write(ctx context.Context, h *Hold, still []*tracked, ready prepared) (failed []*tracked, err error) {
	var alone []*tracked
	for _, t := range still {
		if t.Reservation != nil {
			alone = append(alone, t)
		}
	}
	leaving := map[ID]bool{}
	for _, t := range still {
		leaving[t.ID()] = true
	}
	left, gone, err := b.deleteReservations(ctx, h, alone, leaving)
	failed = append(failed, left...)
	for _, t := range gone {
		b.finish(t)
	}
	pools := byPool(still)
	for _, p := range sortedPools(pools) {
		left, gone, derr := b.deleteReservations(ctx, h, pools[p], leaving)
		failed, err = append(failed, left...), worse(err, derr)
		if len(gone) == 0 {
			continue
		}
		if perr := b.patch(ctx, h, p, gone, ready.patches[p.Ref()]); perr != nil {
			failed, err = append(failed, gone...), worse(err, perr)
			if errors.Is(perr, ErrConflict) {
				b.out.Conflicts++
			}
			continue
		}
		for _, t := range gone {
			b.finish(t)
		}
	}
	return failed, err
}

// worse is the error that says more: a conflict concerns one object, which is
// read again.
func worse(a, b error) error {
	if a == nil || errors.Is(a, ErrConflict) && b != nil {
		return b
	}
	return a
}

// during makes one write if the hold allows for it.
func (r *Reconciler) during(ctx context.Context, h *Hold, write func() error) error {
	if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}
	began := r.Clock.Now()
	err := write()
	h.answered(r.Clock.Since(began))
	return err
}

// finish records that an item was released, with its reservations.
func (b *batch) finish(t *tracked) {
	for _, res := range t.deleted {
		b.done(b.out, t.withReservation(res), b.observation())
	}
	b.done(b.out, t.Item, b.observation())
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
func (b *batch) deleteReservations(ctx context.Context, h *Hold, items []*tracked, leaving map[ID]bool) (failed, gone []*tracked, err error) {
	mine := map[*ippool.Reservation]bool{} // one that two entries share is deleted once
	todo := make([][]*ippool.Reservation, len(items))
	for i, t := range items {
		for _, res := range t.reservations(leaving) {
			if !mine[res] && !t.hasDeleted(res) {
				mine[res] = true
				todo[i] = append(todo[i], res)
			}
		}
	}
	errs := make([]error, len(items))
	var g errgroup.Group
	g.SetLimit(parallelWrites)
	for i, t := range items {
		if len(todo[i]) == 0 {
			continue
		}
		g.Go(func() error {
			for _, res := range todo[i] {
				if !h.open(ctx, b.Clock) {
					errs[i] = ErrHoldSpent // time is left for the entries of those that are deleted
					return nil
				}
				errs[i] = b.during(ctx, h, func() error { return b.Writer.DeleteReservation(ctx, res) })
				// An error may hide that it is gone: then it must be put back all the same.
				if t.Allocation != nil && !errors.Is(errs[i], ErrConflict) && !errors.Is(errs[i], ErrHoldSpent) {
					t.noteDeleted(res)
				}
				if errs[i] != nil {
					t.unsure = true
					return nil
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	for i, t := range items {
		if errs[i] == nil {
			gone = append(gone, t)
			continue
		}
		failed, err = append(failed, t), worse(err, errs[i])
	}
	return failed, gone, err
}

// hasDeleted reports whether a reservation was deleted for the item for certain.
func (t *tracked) hasDeleted(res *ippool.Reservation) bool {
	return !t.unsure && slices.Contains(t.deleted, res)
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
	return t.reserved(res)
}

// patch removes the items' entries from their pool, with the patch that was
// prepared where that is for this very pool and these entries.
func (b *batch) patch(ctx context.Context, h *Hold, p *ippool.Pool, items []*tracked, ready *poolPatch) error {
	entries := entriesOf(items)
	var patch []byte
	if ready != nil && ready.pool == p && ready.entries == len(items) {
		patch = ready.patch
	} else {
		var err error
		if patch, err = ippool.RemovePatch(p, entries); err != nil {
			return err
		}
	}
	version := ""
	err := b.during(ctx, h, func() (err error) {
		version, err = b.Writer.PatchPool(ctx, p, patch)
		return err
	})
	for _, t := range items {
		t.sent = err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrHoldSpent)
	}
	if err == nil {
		b.wrote(p.Without(entries, version), items)
	}
	return err
}

// wrote puts what our own writes did into what was read.
func (b *batch) wrote(p *ippool.Pool, items []*tracked) {
	done := change{Pools: map[types.NamespacedName]*ippool.Pool{{Namespace: p.Namespace, Name: p.Name}: p}, Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	for _, t := range items {
		for _, res := range t.deleted {
			done.Reservations[types.NamespacedName{Namespace: res.Namespace, Name: res.Name}] = nil
		}
	}
	b.x.amend(done)
}

func entriesOf(items []*tracked) []ippool.Allocation {
	entries := make([]ippool.Allocation, 0, len(items))
	for _, t := range items {
		entries = append(entries, *t.Allocation)
	}
	return entries
}
