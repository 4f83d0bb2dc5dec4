package reconciler

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// rollback creates again the reservations that were deleted for items and that an
// entry needs which stays: its ADD may have seen the reservation, kept it, and will
// not make another. What is still to be released needs none, nor does an entry that
// is proven Stale under another id, nor that of another pod, which makes its own.
func (b *batch) rollback(ctx context.Context, items, still []*releaseAttempt, j *judge.Judgement) {
	begun := map[sharedKey][]*releaseAttempt{}
	for _, t := range items {
		if len(t.deleted) > 0 && t.Allocation != nil {
			begun[sharedKeyOf(t.Item)] = append(begun[sharedKeyOf(t.Item)], t)
		}
	}
	if len(begun) == 0 {
		return
	}
	leaving := map[judge.ID]bool{}
	for _, t := range still {
		leaving[t.ID()] = true
		if t.Allocation == nil {
			continue
		}
		for _, u := range begun[sharedKeyOf(t.Item)] { // what proves live later must have it back, too
			for _, res := range u.deleted {
				t.noteDeleted(res)
			}
		}
	}
	needed := map[*releaseAttempt]bool{}
	for _, it := range j.Allocations {
		for _, t := range begun[sharedKeyOf(it)] {
			if !leaving[it.ID()] && (it.Verdict != judge.Stale || !it.Proven || it.ID() == t.ID()) {
				needed[t] = true
			}
		}
	}
	for _, at := range begun {
		for _, t := range at {
			if !leaving[t.ID()] && b.observation().PoolUnreadable(t.Item) {
				needed[t] = true
			}
		}
	}
	b.recreateAll(slices.DeleteFunc(slices.Clone(items), func(t *releaseAttempt) bool { return !needed[t] }))
}

// sharedKey is what entries have in common that may share a reservation.
type sharedKey struct {
	namespace, podRef string
	address           netip.Addr
}

func sharedKeyOf(it *judge.Item) sharedKey {
	return sharedKey{it.Pool.Namespace, it.PodRef(), it.Address()}
}

// abandon leaves items for the next run. What is not known to have gone well
// gets its reservations back: one too many is found and freed later, one too
// few may give a live address away.
func (b *batch) abandon(ctx context.Context, items []*releaseAttempt, why Refusal, detail string) {
	for _, t := range items {
		b.out.refuse(refusedBecause(t.Item, why, detail))
	}
	b.recreateAll(items)
}

// recreateAll creates the deleted reservations of items again, whatever becomes of
// the run. Each has its own time at each try, more of it at the next one, so that
// calls that hang cost the others none.
func (b *batch) recreateAll(items []*releaseAttempt) {
	ctx := context.Background() // neither the end of the run nor that of the hold stops it
	var todo []*ippool.Reservation
	for _, t := range items {
		todo = append(todo, t.deleted...)
		t.deleted = nil
	}
	slices.SortFunc(todo, func(x, y *ippool.Reservation) int {
		return cmp.Or(strings.Compare(x.Ref(), y.Ref()), strings.Compare(x.UID, y.UID))
	})
	todo = slices.CompactFunc(todo, func(x, y *ippool.Reservation) bool { return x.Ref() == y.Ref() && x.UID == y.UID }) // two entries may share one
	for try := 0; len(todo) > 0; try++ {
		errs := make([]error, len(todo))
		var g errgroup.Group
		g.SetLimit(parallelWrites)
		for i, res := range todo {
			g.Go(func() error { errs[i] = b.recreate(ctx, res, time.Second<<try); return nil })
		}
		_ = g.Wait()
		var failed []*ippool.Reservation
		for i, res := range todo {
			switch {
			case errs[i] == nil:
			case try+1 == recreateTries:
				b.Log.Error("could not put back the reservation of an address in use; create it by hand, or run with --repair",
					"reservation", res.Ref(), "podRef", res.PodRef, "ifName", res.IfName, "error", errs[i])
			default:
				failed = append(failed, res)
			}
		}
		if todo = failed; len(todo) > 0 {
			b.wait(ctx, 400*time.Millisecond<<try)
		}
	}
}

// recreateTries is how often a reservation is tried to be put back: where few are left
// it is done within 20 s, or given up.
const recreateTries = 4

// recreate creates a reservation again, for which it has so much time. One that is still
// there may be the one whose delete was sent and not answered: that may yet arrive, and finds
// nothing to delete when the reservation is another object.
func (b *batch) recreate(ctx context.Context, res *ippool.Reservation, within time.Duration) error {
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return b.Writer.CreateReservation(ctx, res.AsNew())
	}
	err := create()
	if errors.Is(err, ErrConflict) {
		deleting, cancel := detached(ctx)
		err = b.Writer.DeleteReservation(deleting, res)
		if cancel(); err == nil {
			err = create()
		}
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		return err
	}
	b.progress("put back the reservation %s", res.Ref())
	b.Log.Info("put the reservation back", "reservation", res.Ref(), "podRef", res.PodRef)
	return nil
}

// detached is the time for a write that must not be left half done, even where
// the run is being stopped or the Lease was given back. It bounds how long a
// process takes to end.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
