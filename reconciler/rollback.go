package reconciler

import (
	"cmp"
	"context"
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

// recreateReservations recreates the deleted reservations of changes that end here, even if the run ends.
func (e *executor) recreateReservations(changes []*change) {
	for r, err := range e.tryToRecreate(changes, 4) { // a few of them take at most 20 s
		e.Log.Error("Could not recreate a reservation; create it by hand if its address is in use, or run with --repair",
			"reservation", r.Ref(), "podRef", r.PodRef, "ifName", r.IfName, "error", err)
	}
}

// tryToRecreate recreates the deleted reservations of changes. Each has a timeout of its own, longer at each try, so
// that calls that hang do not delay the others. What failed is returned, and stays deleted for its changes.
func (e *executor) tryToRecreate(changes []*change, tries int) (failed map[*ippool.Reservation]error) {
	ctx := context.Background() // not cancelled by the end of the run or of the hold
	var todo []*ippool.Reservation
	for _, c := range changes {
		todo = append(todo, c.deleted...)
	}
	slices.SortFunc(todo, func(x, y *ippool.Reservation) int {
		return cmp.Or(strings.Compare(x.Ref(), y.Ref()), strings.Compare(x.UID, y.UID))
	})
	todo = slices.CompactFunc(todo, isSame) // two allocations may share one
	for try := 0; try < tries && len(todo) > 0; try++ {
		if try > 0 {
			e.wait(ctx, 200*time.Millisecond<<try)
		}
		e.progress("Recreating %d reservations", len(todo))
		errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error {
			return e.recreateReservation(ctx, r, time.Second<<try)
		})
		failed = map[*ippool.Reservation]error{}
		for i, r := range todo {
			if errs[i] != nil {
				failed[r] = errs[i]
			}
		}
		todo = slices.DeleteFunc(todo, func(r *ippool.Reservation) bool { return failed[r] == nil })
	}
	for _, c := range changes {
		c.deleted = slices.DeleteFunc(c.deleted, func(r *ippool.Reservation) bool {
			return !slices.ContainsFunc(todo, func(x *ippool.Reservation) bool { return isSame(x, r) })
		})
		if len(c.deleted) == 0 && c.state == reservationDeleted {
			c.state = planned
		}
	}
	return failed
}

func isSame(x, y *ippool.Reservation) bool { return x.Ref() == y.Ref() && x.UID == y.UID }

// recreateReservation recreates a reservation, whose creates have this timeout each.
func (e *executor) recreateReservation(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error {
	if err := e.Leases.Recreate(ctx, r, timeout); err != nil {
		return err
	}
	e.progress("Recreated reservation %s", r.Ref())
	e.Log.Info("Recreated a reservation", "reservation", r.Ref(), "podRef", r.PodRef)
	return nil
}

// detached is the context of a write that must complete even if the run is being stopped or the hold ends.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
