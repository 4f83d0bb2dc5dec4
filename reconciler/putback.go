package reconciler

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// putBack creates again the reservations that were deleted for an entry which
// then proved live: its ADD may have seen the reservation, kept it, and will
// not make another. An entry that is proven Stale under another id, or gone, gets
// none, nor does one of another pod, which has made its own.
func (b *batch) putBack(ctx context.Context, items []*tracked, j *Judgement) {
	type place struct{ object, key, podRef string }
	begun := map[place][]*tracked{}
	for _, t := range items {
		if len(t.deleted) > 0 && t.Allocation != nil {
			at := place{t.Object(), t.Key(), t.PodRef()}
			begun[at] = append(begun[at], t)
		}
	}
	if len(begun) == 0 {
		return
	}
	var needed []*tracked
	for _, it := range j.Allocations {
		for _, t := range begun[place{it.Object(), it.Key(), it.PodRef()}] {
			if it.Verdict != Stale || !it.Proven || it.ID() == t.ID() {
				needed = append(needed, t)
			}
		}
	}
	b.recreateAll(ctx, needed)
}

// abandon leaves items for the next run. What is not known to have gone well
// gets its reservations back: one too many is found and freed later, one too
// few may give a live address away.
func (b *batch) abandon(ctx context.Context, items []*tracked, why Refusal, detail string) {
	for _, t := range items {
		b.out.refuse(Refused{t.Item, why, detail})
	}
	b.recreateAll(ctx, items)
}

// recreateAll creates the deleted reservations of items again, whatever becomes of
// the run. A server that takes its time gets it: half a second for each that waits
// its turn.
func (b *batch) recreateAll(ctx context.Context, items []*tracked) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackFor+time.Duration(countBegun(items))*500*time.Millisecond/parallelWrites)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(parallelWrites)
	for _, t := range items {
		if len(t.deleted) > 0 {
			g.Go(func() error { b.recreate(ctx, t); return nil })
		}
	}
	_ = g.Wait()
}

const putBackFor = 10 * time.Second

// inAnyCase is the time for a write that must not be left half done, even where
// the run is being stopped or the Lease was given back. It bounds how long a
// process takes to end.
func inAnyCase(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), putBackFor)
}

func (b *batch) recreate(ctx context.Context, t *tracked) {
	for _, res := range t.deleted {
		var err error
		for try := range 5 {
			if err = b.Writer.CreateReservation(ctx, res.AsNew()); err == nil || errors.Is(err, ErrConflict) {
				err = nil
				break
			}
			b.wait(ctx, 200*time.Millisecond<<try)
		}
		if err != nil {
			b.Log.Error("could not put back the reservation of an address in use; create it by hand, or run with --repair",
				"reservation", res.Ref(), "podRef", res.PodRef, "ifName", res.IfName, "error", err)
			continue
		}
		b.Log.Info("put the reservation back", "reservation", res.Ref(), "podRef", res.PodRef)
	}
	t.deleted = nil
}
