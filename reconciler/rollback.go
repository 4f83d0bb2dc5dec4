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

// rollback recreates the reservations that were deleted for changes and that a remaining allocation needs: its ADD may
// have adopted the reservation, and does not create another one. Three kinds of allocations need none: what is still to
// be released, what is proven Stale under another id, and those of other pods, which create their own.
func (e *executor) rollback(changes, still []*change, j *judge.Judgement) {
	partial := map[sharedKey][]*change{}
	for _, c := range changes {
		if len(c.deleted) > 0 {
			partial[sharedKeyOf(c.Item)] = append(partial[sharedKeyOf(c.Item)], c)
		}
	}
	if len(partial) == 0 {
		return
	}
	toRelease := idsOf(still)
	for _, c := range still {
		if c.Allocation == nil {
			continue
		}
		for _, d := range partial[sharedKeyOf(c.Item)] { // an item that proves live later needs it, too
			for _, r := range d.deleted {
				c.noteDeleted(r)
			}
		}
	}
	needed := map[*change]bool{}
	for _, it := range j.Allocations {
		for _, c := range partial[sharedKeyOf(it)] {
			if !toRelease[it.ID()] && (it.Verdict != judge.Stale || !it.Proven || it.ID() == c.ID()) {
				needed[c] = true
			}
		}
	}
	for _, at := range partial {
		for _, c := range at {
			if !toRelease[c.ID()] && e.x.IsUnreadable(c.Item) {
				needed[c] = true
			}
		}
	}
	back, _ := partition(changes, func(c *change) bool { return needed[c] })
	e.recreateReservations(back)
}

// sharedKey is equal for allocations that may share a reservation.
type sharedKey struct {
	namespace, podRef string
	address           netip.Addr
}

func sharedKeyOf(it *judge.Item) sharedKey {
	return sharedKey{it.Namespace(), it.PodRef(), it.Address()}
}

// recreateReservations recreates the deleted reservations of changes, even if the run ends. Each reservation has a
// timeout of its own, longer at each try, so that calls that hang do not delay the others.
func (e *executor) recreateReservations(changes []*change) {
	ctx := withRollback(context.Background()) // not cancelled by the end of the run or of the hold
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
	todo = slices.CompactFunc(todo, func(x, y *ippool.Reservation) bool { // two allocations may share one
		return x.Ref() == y.Ref() && x.UID == y.UID
	})
	for try := 0; len(todo) > 0; try++ {
		errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error {
			return e.recreateReservation(ctx, r, time.Second<<try)
		})
		var failed []*ippool.Reservation
		for i, r := range todo {
			switch {
			case errs[i] == nil:
			case try+1 == recreateTries:
				e.Log.Error("Could not recreate the reservation of an address in use; create it by hand, or run with --repair",
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

const recreateTries = 4 // of a reservation; a few of them take at most 20 s

// recreateReservation recreates a reservation within the timeout. One that exists may be the one whose delete was sent
// and not answered. That delete may still arrive, and must not match: so the reservation is replaced by a new object.
func (e *executor) recreateReservation(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error {
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
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
	e.progress("recreated reservation %s", r.Ref())
	e.Log.Info("Recreated a reservation", "reservation", r.Ref(), "podRef", r.PodRef)
	return nil
}

// detached is the context of a write that must complete even if the run is being stopped or the hold ends.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
