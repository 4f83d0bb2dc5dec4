package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// parallelWrites is how many reservations are deleted or created at once.
	parallelWrites = 16
	// parallelPools is how many pools are written at once: the API server takes
	// most of its time for one core's work on a large pool.
	parallelPools = 4
)

// write deletes the reservations of the items and then removes their entries,
// pools beside each other. It returns the items of which something failed.
func (b *batch) write(ctx context.Context, h *Hold, still []*releaseAttempt, ready prepared) (failed []*releaseAttempt, err error) {
	leaving := map[judge.ID]bool{}
	for _, t := range still {
		leaving[t.ID()] = true
	}
	parts := []*poolWrite{{items: slices.DeleteFunc(slices.Clone(still), func(t *releaseAttempt) bool { return t.Reservation == nil })}}
	pools := byPool(still)
	for _, p := range sortedPools(pools) {
		parts = append(parts, &poolWrite{pool: p, items: pools[p], patch: ready.patches[p.Ref()]})
	}
	slots := make(chan struct{}, parallelWrites)
	var g errgroup.Group
	g.SetLimit(parallelPools)
	for _, w := range parts {
		g.Go(func() error { b.writeOne(ctx, h, w, leaving, slots); return nil })
	}
	_ = g.Wait()
	noteShared(parts, leaving)
	for _, w := range parts {
		failed, err = append(failed, w.failed...), moreSevere(err, w.err)
		if len(w.conflicted) > 0 {
			b.out.Conflicts++
			b.noteConflict(w)
		}
		if len(w.done) > 0 && w.pool != nil {
			b.wrote(w)
		}
		for _, t := range w.done {
			b.finish(t)
		}
	}
	return failed, err
}

// noteShared notes a reservation that was deleted for the entry of one pool for
// those of other pools, too: one that proves live must have it back.
func noteShared(parts []*poolWrite, leaving map[judge.ID]bool) {
	deleted := map[*ippool.Reservation]bool{}
	for _, w := range parts {
		for _, t := range slices.Concat(w.done, w.failed) {
			for _, res := range t.deleted {
				deleted[res] = true
			}
		}
	}
	for _, w := range parts {
		for _, t := range w.failed {
			for _, res := range t.reservations(leaving) {
				if t.Allocation != nil && deleted[res] {
					t.noteDeleted(res)
				}
			}
		}
	}
}

// poolWrite is what is written of one pool, or of the reservations that stand alone.
type poolWrite struct {
	pool  *ippool.Pool // nil for reservations
	items []*releaseAttempt
	patch *poolPatch // what was prepared; nil for none

	done, failed []*releaseAttempt
	version      string            // of the pool, where something was done
	conflicted   []*releaseAttempt // those whose patch met a change of the pool
	err          error
}

// writeOne writes what is to be written of one pool. It is called for several at once.
func (b *batch) writeOne(ctx context.Context, h *Hold, w *poolWrite, leaving map[judge.ID]bool, slots chan struct{}) {
	w.failed, w.done, w.err = b.deleteReservations(ctx, h, w.items, leaving, slots)
	if w.pool == nil || len(w.done) == 0 {
		return
	}
	if err := b.removeEntries(ctx, h, w); err != nil {
		if errors.Is(err, ErrConflict) {
			w.conflicted = w.done
		}
		w.failed, w.done, w.err = append(w.failed, w.done...), nil, moreSevere(w.err, err)
	}
}

// moreSevere is the error that says more: a conflict concerns one object, which is
// read again.
func moreSevere(a, b error) error {
	if a == nil || errors.Is(a, ErrConflict) && b != nil {
		return b
	}
	return a
}

// writeUnderHold makes one write if the hold allows for it. One that is under way is not
// broken off when the hold ends: it carries its proof, and the API server would
// have worked on it in vain.
func (r *Reconciler) writeUnderHold(ctx context.Context, h *Hold, write func(context.Context) error) error {
	if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	began := r.Clock.Now()
	err := write(ctx)
	h.noteLatency(r.Clock.Since(began))
	return err
}

// finish records that an item was released, with its reservations. One that two
// entries shared is recorded once.
func (b *batch) finish(t *releaseAttempt) {
	for _, res := range t.deleted {
		if id := res.Ref() + " " + res.UID; !b.told[id] {
			b.told[id] = true
			b.done(b.out, t.withReservation(res), b.observation())
		}
	}
	b.done(b.out, t.Item, b.observation())
	t.deleted, t.sent = nil, false
}

// deleteReservations deletes what goes before its entry. An item of which one
// was not deleted keeps its entry for now.
func (b *batch) deleteReservations(ctx context.Context, h *Hold, items []*releaseAttempt, leaving map[judge.ID]bool, slots chan struct{}) (failed, gone []*releaseAttempt, err error) {
	of := map[*ippool.Reservation]error{} // one that two entries share is deleted once
	var todo []*ippool.Reservation
	for _, t := range items {
		for _, res := range t.reservations(leaving) {
			if _, listed := of[res]; !listed && !t.hasDeleted(res) {
				of[res] = nil
				todo = append(todo, res)
			}
		}
	}
	errs := make([]error, len(todo))
	var wg sync.WaitGroup
	for i, res := range todo {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = ErrHoldSpent // time is left for the entries of those that are deleted
			if h.mayBegin(ctx, b.Clock) {
				errs[i] = b.writeUnderHold(ctx, h, func(ctx context.Context) error { return b.Writer.DeleteReservation(ctx, res) })
			}
		})
	}
	wg.Wait()
	for i, res := range todo {
		of[res] = errs[i]
	}
	for _, t := range items {
		if t.noteDeletes(t.reservations(leaving), of); t.failed == nil {
			gone = append(gone, t)
			continue
		}
		failed, err = append(failed, t), moreSevere(err, t.failed)
	}
	return failed, gone, err
}

// noteDeletes takes in what became of the deletes of an item's reservations: those that
// were tried have an error or nil.
func (t *releaseAttempt) noteDeletes(reservations []*ippool.Reservation, tried map[*ippool.Reservation]error) {
	t.failed = nil
	for _, res := range reservations {
		err, ok := tried[res]
		if !ok {
			continue
		}
		// An error may hide that it is gone: then it must be put back all the same.
		if t.Allocation != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrHoldSpent) {
			t.noteDeleted(res)
		}
		t.unsure = t.unsure || err != nil
		t.failed = moreSevere(t.failed, err)
	}
}

// hasDeleted reports whether a reservation was deleted for the item for certain.
func (t *releaseAttempt) hasDeleted(res *ippool.Reservation) bool {
	return !t.unsure && slices.Contains(t.deleted, res)
}

func (t *releaseAttempt) noteDeleted(res *ippool.Reservation) {
	if !slices.ContainsFunc(t.deleted, func(x *ippool.Reservation) bool { return x.UID == res.UID && x.Ref() == res.Ref() }) {
		t.deleted = append(t.deleted, res)
	}
}

// reservations are those to delete for an item: its own, where it is one; else
// the ones that no allocation needs which is not leaving as well.
func (t *releaseAttempt) reservations(leaving map[judge.ID]bool) []*ippool.Reservation {
	if t.Reservation != nil {
		return []*ippool.Reservation{t.Reservation}
	}
	var all []*ippool.Reservation
	for _, r := range t.Related() {
		if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), func(a *judge.Item) bool { return !leaving[a.ID()] }) {
			all = append(all, r.Reservation)
		}
	}
	return all
}

func (t *releaseAttempt) withReservation(res *ippool.Reservation) *judge.Item {
	for _, r := range t.Related() {
		if r.Reservation == res {
			return r
		}
	}
	return t.ReservationItem(res)
}

// removeEntries removes the items' entries from their pool, with the patch that
// was prepared where that is for this very pool and these entries.
func (b *batch) removeEntries(ctx context.Context, h *Hold, w *poolWrite) (err error) {
	var patch []byte
	if ready := w.patch; ready != nil && ready.pool == w.pool && ready.entries == len(w.done) {
		patch = ready.patch
	} else if patch, err = ippool.RemovePatch(w.pool, entriesOf(w.done)); err != nil {
		return err
	}
	err = b.writeUnderHold(ctx, h, func(ctx context.Context) (err error) {
		w.version, err = b.Writer.PatchPool(ctx, w.pool, patch)
		return err
	})
	for _, t := range w.done {
		// What was sent before may still arrive.
		t.sent = t.sent || err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrHoldSpent)
		t.failed = err
	}
	return err
}

// wrote puts what our own writes did into what was read.
func (b *batch) wrote(w *poolWrite) {
	p := w.pool.Without(entriesOf(w.done), w.version)
	b.History.noteWrite(p)
	done := &judge.Live{Pools: map[types.NamespacedName]*ippool.Pool{{Namespace: p.Namespace, Name: p.Name}: p}, Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	for _, t := range w.done {
		for _, res := range t.deleted {
			done.Reservations[types.NamespacedName{Namespace: res.Namespace, Name: res.Name}] = nil
		}
	}
	b.x = b.x.With(done)
}

// noteConflict takes a conflict for a denial where the pool has still the resourceVersion at which a patch
// met one before: it was read since, and nobody had changed it.
func (b *batch) noteConflict(w *poolWrite) {
	at := w.pool.ResourceVersion
	if b.conflicted[w.pool.Ref()] == at {
		for _, t := range w.conflicted {
			t.failed = fmt.Errorf("%w: the pool has not changed: %v", ErrForbidden, t.failed) //nolint:errorlint // it is no conflict
		}
	}
	b.conflicted[w.pool.Ref()] = at
}

func entriesOf(items []*releaseAttempt) []ippool.Allocation {
	entries := make([]ippool.Allocation, 0, len(items))
	for _, t := range items {
		entries = append(entries, *t.Allocation)
	}
	return entries
}
