package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

const (
	parallelWrites = 16 // how many reservations are deleted or created at once
	parallelPools  = 2  // how many pools are written at once: a large one takes most of a core of the API server
)

// write deletes the reservations of allocations, patches pools, deletes the pools that are retired, and creates
// reservations. A write that fails ends its change for this hold. write returns the changes that follow those that are
// done.
func (e *executor[C]) write(ctx context.Context, h *hold, changes []C) (followUps []C) {
	for _, c := range changes {
		c.soFar().err = nil
	}
	written := &facts.Live{
		Pools: map[types.NamespacedName]*ippool.Pool{}, Reservations: map[types.NamespacedName]*ippool.Reservation{},
	}
	e.deleteReservations(ctx, h, changes, written)
	e.patchPools(ctx, h, changes, written)
	e.retirePools(ctx, h, changes, written)
	e.Reader.Wrote(written)
	for _, c := range changes {
		if c.soFar().state == Done {
			followUps = append(followUps, e.rules.FollowUps(e.Reader.Facts(), c)...)
		}
	}
	all := slices.Concat(changes, followUps)
	e.createReservations(ctx, h, all)
	for _, c := range all {
		if c.soFar().state == Done {
			e.rules.Finished(c)
		}
	}
	return followUps
}

// deleteReservations deletes the reservations of changes, once where two allocations share one.
func (e *executor[C]) deleteReservations(ctx context.Context, h *hold, changes []C, written *facts.Live) {
	answers := map[*ippool.Reservation]error{}
	var todo []*ippool.Reservation
	for _, c := range changes {
		for _, r := range c.Steps().Delete {
			if _, listed := answers[r]; !listed {
				answers[r] = nil
				todo = append(todo, r)
			}
		}
	}
	errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error {
		if !h.mayBegin(e.Clock) { // the rest of the time is for the allocations
			return ErrHoldSpent
		}
		remove := func(ctx context.Context) error { return h.DeleteReservation(ctx, r) }
		err := e.writeUnderHold(ctx, h, remove)
		if answerOf(err) == uncertain && e.writeUnderHold(ctx, h, remove) == nil { // the first cannot match any more
			err = nil
		}
		if err == nil && !h.mayWrite() {
			return errAfterHold
		}
		return err
	})
	for i, r := range todo {
		if answers[r] = errs[i]; errs[i] == nil {
			written.Reservations[r.NamespacedName] = nil
		}
	}
	for _, c := range changes {
		for _, r := range c.Steps().Delete {
			c.Note(Step{Delete: r}, answers[r])
		}
	}
}

// poolEdit is what the changes of a hold write into one pool.
type poolEdit[C Change] struct {
	pool    *ippool.Pool
	isNew   bool // the pool does not exist
	remove  []ippool.Allocation
	add     []ippool.NewEntry
	changes []C
	after   *ippool.Pool // the pool after the write; nil where that failed
}

// editsOf collects what the changes of which no delete failed write into pools.
func editsOf[C Change](changes []C) (edits []*poolEdit[C]) {
	by := map[*ippool.Pool]*poolEdit[C]{}
	for _, c := range changes {
		s := c.Steps()
		p := s.Pool
		if p == nil || c.soFar().err != nil {
			continue
		}
		if by[p] == nil {
			by[p] = &poolEdit[C]{pool: p, isNew: s.IsNewPool}
			edits = append(edits, by[p])
		}
		by[p].note(c, s)
	}
	slices.SortFunc(edits, func(x, y *poolEdit[C]) int { return strings.Compare(x.pool.Ref(), y.pool.Ref()) })
	return edits
}

func (w *poolEdit[C]) note(c C, s Steps) {
	w.changes = append(w.changes, c)
	if s.Remove != nil {
		w.remove = append(w.remove, *s.Remove)
	}
	if s.Add != nil {
		w.add = append(w.add, *s.Add)
	}
}

// patchPools removes and writes the allocations of changes of which no delete failed, with one patch per pool.
func (e *executor[C]) patchPools(ctx context.Context, h *hold, changes []C, written *facts.Live) {
	edits := editsOf(changes)
	errs := inParallel(parallelPools, edits, func(w *poolEdit[C]) error { return e.patchPool(ctx, h, w) })
	for i, w := range edits {
		if errors.Is(errs[i], ErrConflict) {
			errs[i] = e.deniedOrConflict(w.pool, errs[i])
		}
		for _, c := range w.changes {
			c.Note(Step{}, errs[i])
		}
		if errs[i] == nil {
			written.Pools[w.pool.NamespacedName] = w.after
		}
	}
}

// patchPool removes allocations from a pool or writes some into it. A pool that does not exist is created with its
// allocations; if an ADD creates it first, that is a conflict.
func (e *executor[C]) patchPool(ctx context.Context, h *hold, w *poolEdit[C]) (err error) {
	var patch []byte
	var version string
	switch {
	case len(w.add) == 0:
		patch, err = ippool.RemovePatch(w.pool, w.remove)
	case !h.mayBegin(e.Clock):
		return ErrHoldSpent
	case !w.isNew:
		patch, err = ippool.WritePatch(w.pool, w.add)
	}
	if err != nil {
		return notSent{err}
	}
	err = e.writeUnderHold(ctx, h, func(ctx context.Context) (err error) {
		if patch == nil {
			version, err = h.CreatePool(ctx, w.pool, w.add)
		} else {
			version, err = h.PatchPool(ctx, w.pool, patch)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(w.add) > 0:
		w.after = w.pool.With(w.add, version)
	default:
		w.after = w.pool.Without(w.remove, version)
	}
	return nil
}

// deniedOrConflict turns a conflict into ErrForbidden where nobody has changed the pool since an earlier conflict.
func (e *executor[C]) deniedOrConflict(p *ippool.Pool, conflict error) error {
	before, known := e.conflicts[p.Ref()]
	e.conflicts[p.Ref()] = p.ResourceVersion
	if known && before == p.ResourceVersion {
		//nolint:errorlint // no conflict any more
		return fmt.Errorf("%w: the pool has not changed: %v", ErrForbidden, conflict)
	}
	return conflict
}

// createReservations creates the reservations of the changes that consist of one.
func (e *executor[C]) createReservations(ctx context.Context, h *hold, changes []C) {
	var creates []C
	var steps []Steps
	for _, c := range changes {
		if s := c.Steps(); s.Create != nil {
			creates, steps = append(creates, c), append(steps, s)
		}
	}
	if len(creates) == 0 {
		return
	}
	written := &facts.Live{Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	errs := inParallel(parallelWrites, steps, func(s Steps) error {
		if !h.mayBegin(e.Clock) {
			return ErrHoldSpent
		}
		return e.createReservation(ctx, h, s)
	})
	for i, c := range creates {
		if c.Note(Step{}, errs[i]); errs[i] == nil {
			written.Reservations[steps[i].Create.NamespacedName] = steps[i].Create
		}
	}
	e.Reader.Wrote(written)
}

// createReservation creates a reservation. First it deletes the one that it replaces, by UID and resourceVersion.
func (e *executor[C]) createReservation(ctx context.Context, h *hold, s Steps) error {
	create := func(ctx context.Context) error { return h.CreateReservation(ctx, s.Create) }
	if s.Replace == nil {
		return e.writeUnderHold(ctx, h, create)
	}
	err := e.writeUnderHold(ctx, h, func(ctx context.Context) error { return h.DeleteReservation(ctx, s.Replace) })
	if err != nil {
		return err
	}
	ctx, cancel := detached(ctx) // must complete
	defer cancel()
	return create(ctx)
}

// writeUnderHold makes one write if the hold allows it. The end of the hold does not cancel the write: it carries its
// proof, and the API server would have worked in vain.
func (e *executor[C]) writeUnderHold(ctx context.Context, h *hold, write func(context.Context) error) error {
	if !h.mayWrite() {
		return ErrHoldSpent
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	sent := e.Clock.Now()
	err := write(ctx)
	took := e.Clock.Since(sent)
	if h.noteLatency(took); err != nil && took >= MaxHold {
		return fmt.Errorf("%w for %s: %w", errNoAnswer, took.Round(time.Second), err)
	}
	return err
}

// inParallel calls do for each element, limit at a time, and returns the errors by index.
func inParallel[T any](limit int, all []T, do func(T) error) []error {
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(limit)
	for i, x := range all {
		g.Go(func() error { errs[i] = do(x); return nil })
	}
	_ = g.Wait()
	return errs
}
