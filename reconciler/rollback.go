package reconciler

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// rollback creates again the reservations that were deleted for changes and that an entry needs which stays: its ADD
// may have seen the reservation, kept it, and will not make another. What is still to be released needs none, nor
// does an entry that is proven Stale under another id, nor that of another pod, which makes its own.
func (e *executor) rollback(changes, still []*change, j *judge.Judgement) {
	begun := map[sharedKey][]*change{}
	for _, c := range changes {
		if len(c.deleted) > 0 {
			begun[sharedKeyOf(c.Item)] = append(begun[sharedKeyOf(c.Item)], c)
		}
	}
	if len(begun) == 0 {
		return
	}
	leaving := leavingOf(still)
	for _, c := range still {
		if c.Allocation == nil {
			continue
		}
		for _, d := range begun[sharedKeyOf(c.Item)] { // what proves live later must have it back, too
			for _, r := range d.deleted {
				c.noteDeleted(r)
			}
		}
	}
	needed := map[*change]bool{}
	for _, it := range j.Allocations {
		for _, c := range begun[sharedKeyOf(it)] {
			if !leaving[it.ID()] && (it.Verdict != judge.Stale || !it.Proven || it.ID() == c.ID()) {
				needed[c] = true
			}
		}
	}
	for _, at := range begun {
		for _, c := range at {
			if !leaving[c.ID()] && e.x.IsUnreadable(c.Item) {
				needed[c] = true
			}
		}
	}
	back, _ := divide(changes, func(c *change) bool { return needed[c] })
	e.putBack(back)
}

// sharedKey is what entries have in common that may share a reservation.
type sharedKey struct {
	namespace, podRef string
	address           netip.Addr
}

func sharedKeyOf(it *judge.Item) sharedKey {
	return sharedKey{it.Namespace(), it.PodRef(), it.Address()}
}

// putBack creates the deleted reservations of changes again, whatever becomes of the run. Each has its own time at
// each try, more of it at the next one, so that calls that hang cost the others none.
func (e *executor) putBack(changes []*change) {
	ctx := puttingBack(context.Background()) // neither the end of the run nor that of the hold stops it
	var todo []*ippool.Reservation
	for _, c := range changes {
		todo = append(todo, c.deleted...)
		c.deleted = nil
		if c.state == reservationDeleted {
			c.state = planned
		}
	}
	slices.SortFunc(todo, func(x, y *ippool.Reservation) int {
		return cmp.Or(strings.Compare(x.Ref(), y.Ref()), strings.Compare(x.UID, y.UID))
	})
	todo = slices.CompactFunc(todo, func(x, y *ippool.Reservation) bool { return x.Ref() == y.Ref() && x.UID == y.UID }) // two entries may share one
	for try := 0; len(todo) > 0; try++ {
		errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error { return e.recreate(ctx, r, time.Second<<try) })
		var failed []*ippool.Reservation
		for i, r := range todo {
			switch {
			case errs[i] == nil:
			case try+1 == recreateTries:
				e.Log.Error("could not put back the reservation of an address in use; create it by hand, or run with --repair",
					"reservation", r.Ref(), "podRef", r.PodRef, "ifName", r.IfName, "error", errs[i])
			default:
				failed = append(failed, r)
			}
		}
		if todo = failed; len(todo) > 0 {
			e.wait(ctx, 400*time.Millisecond<<try)
		}
	}
}

// recreateTries is how often a reservation is tried to be put back: where few are left it is done within 20 s, or
// given up.
const recreateTries = 4

// recreate creates a reservation again, for which it has so much time. One that is still there may be the one whose
// delete was sent and not answered: that may yet arrive, and finds nothing to delete when the reservation is another
// object.
func (e *executor) recreate(ctx context.Context, r *ippool.Reservation, within time.Duration) error {
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return e.Writer.CreateReservation(ctx, r.AsNew())
	}
	err := create()
	if errors.Is(err, ErrConflict) {
		deleting, cancel := detached(ctx)
		err = e.Writer.DeleteReservation(deleting, r)
		if cancel(); err == nil {
			err = create()
		}
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		return err
	}
	e.progress("put back the reservation %s", r.Ref())
	e.Log.Info("put the reservation back", "reservation", r.Ref(), "podRef", r.PodRef)
	return nil
}

// detached is the time for a write that must not be left half done, even where the run is being stopped or the Lease
// was given back. It bounds how long a process takes to end.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
