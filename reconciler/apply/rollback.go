package apply

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// toRecreate returns the releases whose deleted reservations are recreated, because a remaining allocation needs them:
// its ADD may have adopted the reservation, and does not create another one. Three kinds of allocations need none: what
// is still to be released, what is proven Stale under another id, and those of other pods, which create their own.
// Without an allocation, a reservation is recreated if its delete has yet to arrive, and the release has ended: by then
// an ADD may have adopted it.
func toRecreate(f *facts.Facts, j *judge.Judgement, todo, stand []*Release) []*Release {
	partial := map[sharedKey][]*Release{}
	for _, r := range todo {
		if len(r.deleted) > 0 {
			partial[sharedKeyOf(r.Item)] = append(partial[sharedKeyOf(r.Item)], r)
		}
	}
	if len(partial) == 0 {
		return nil
	}
	toRelease := judge.IDs(stand)
	for _, r := range stand {
		if r.Item.Allocation == nil {
			continue
		}
		for _, d := range partial[sharedKeyOf(r.Item)] { // an item that proves live later needs it, too
			for _, res := range d.deleted {
				r.noteDeleted(res)
			}
		}
	}
	needed := map[*Release]bool{}
	for _, it := range j.Allocations {
		for _, r := range partial[sharedKeyOf(it)] {
			if !toRelease[it.ID()] && (it.Verdict != judge.Stale || !it.Proven || it.ID() == r.ID()) {
				needed[r] = true
			}
		}
	}
	for _, at := range partial {
		for _, r := range at {
			if !toRelease[r.ID()] && (judge.IsUnreadable(f, r.Item) || r.state == GivenUp && r.mayYetArrive(f)) {
				needed[r] = true
			}
		}
	}
	back, _ := partition(todo, func(r *Release) bool { return needed[r] })
	return back
}

// mayYetArrive reports whether a reservation exists whose delete was sent.
func (r *Release) mayYetArrive(f *facts.Facts) bool {
	return slices.ContainsFunc(r.deleted, func(res *ippool.Reservation) bool {
		now := f.ReservationNamed(res.Namespace, res.Name)
		return now != nil && isSame(now, res)
	})
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
func (e *executor[C]) recreateReservations(changes []C) {
	for r, err := range e.tryToRecreate(changes, 4, lastTries) {
		e.Log.Error("Could not recreate a reservation; create it by hand if its address is in use, or run with --repair",
			"reservation", r.Ref(), "podRef", r.PodRef, "ifName", r.IfName, "error", err)
	}
}

// lastTries is how long, at least, the tries go on to recreate a reservation that nobody else recreates: errors that
// come at once must not use them up within seconds.
const lastTries = 15 * time.Second

// tryToRecreate recreates the deleted reservations of changes. They get so many tries, and more until this time has
// passed. Each has a timeout of its own, longer at each try, so that calls that hang do not delay the others. What
// failed is returned, and stays deleted for its changes.
func (e *executor[C]) tryToRecreate(
	changes []C, tries int, atLeast time.Duration,
) (failed map[*ippool.Reservation]error) {
	ctx := context.Background() // not cancelled by the end of the run or of the hold
	var todo []*ippool.Reservation
	for _, c := range changes {
		todo = append(todo, c.undo()...)
	}
	slices.SortFunc(todo, func(x, y *ippool.Reservation) int {
		return cmp.Or(strings.Compare(x.Ref(), y.Ref()), strings.Compare(x.UID, y.UID))
	})
	todo = slices.CompactFunc(todo, isSame) // two allocations may share one
	start := e.Clock.Now()
	for try := 0; len(todo) > 0 && (try < tries || e.Clock.Since(start) < atLeast); try++ {
		longer := min(try, 3)
		if try > 0 {
			e.wait(ctx, 200*time.Millisecond<<longer)
		}
		e.progress("Recreating %d reservations", len(todo))
		errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error {
			return e.recreateReservation(ctx, r, time.Second<<longer)
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
		c.noteUndone(todo)
	}
	return failed
}

// recreateReservation recreates a reservation, whose creates have this timeout each.
func (e *executor[C]) recreateReservation(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error {
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
