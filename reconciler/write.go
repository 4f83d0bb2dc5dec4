package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// parallelWrites is how many reservations are deleted or created at once.
	parallelWrites = 16
	// parallelPools is how many pools are written at once: the API server takes most of its time for one core's
	// work on a large pool.
	parallelPools = 4
)

// write makes the steps of changes: it deletes the reservations of entries, patches pools, and creates reservations.
// A step that fails ends its change for now. It returns those that failed.
func (e *executor) write(ctx context.Context, h *Hold, changes checked) (failed []*change) {
	for _, c := range changes {
		c.err = nil
	}
	wrote := &judge.Live{Pools: map[types.NamespacedName]*ippool.Pool{}, Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	e.deleteReservations(ctx, h, changes, wrote)
	e.patchPools(ctx, h, changes, wrote)
	e.x = e.x.With(wrote)
	all := slices.Clone([]*change(changes))
	for _, c := range changes {
		if c.finding != nil && c.state == done {
			all = append(all, e.missingReservations(c)...)
		}
	}
	if creates, _ := divide(all, func(c *change) bool { return c.finding != nil && c.pool() == nil }); len(creates) > 0 {
		e.createReservations(ctx, h, creates)
	}
	for _, c := range all {
		if c.state == done {
			e.wrote++
			e.finish(c)
		} else {
			failed = append(failed, c)
		}
	}
	return failed
}

// deleteReservations deletes what goes before its entry, and reservations that stand alone. One that two entries
// share is deleted once.
func (e *executor) deleteReservations(ctx context.Context, h *Hold, changes []*change, wrote *judge.Live) {
	answers := map[*ippool.Reservation]error{}
	var todo []*ippool.Reservation
	for _, c := range changes {
		for _, r := range c.deletes {
			if _, listed := answers[r]; !listed {
				answers[r] = nil
				todo = append(todo, r)
			}
		}
	}
	errs := inParallel(parallelWrites, todo, func(r *ippool.Reservation) error {
		if !h.mayBegin(ctx, e.Clock) { // time is left for the entries of those that are deleted
			return ErrHoldSpent
		}
		return e.writeUnderHold(ctx, h, func(ctx context.Context) error { return e.Writer.DeleteReservation(ctx, r) })
	})
	for i, r := range todo {
		if answers[r] = errs[i]; errs[i] == nil {
			wrote.Reservations[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = nil
		}
	}
	for _, c := range changes {
		for _, r := range c.deletes {
			c.noteDelete(r, answers[r])
		}
	}
}

// patchPools removes and writes the entries of changes of which no delete failed, with one patch for each pool.
func (e *executor) patchPools(ctx context.Context, h *Hold, changes []*change, wrote *judge.Live) {
	by := map[*ippool.Pool][]*change{}
	var pools []*ippool.Pool
	for _, c := range changes {
		if p := c.pool(); p != nil && c.err == nil {
			if by[p] == nil {
				pools = append(pools, p)
			}
			by[p] = append(by[p], c)
		}
	}
	slices.SortFunc(pools, func(x, y *ippool.Pool) int { return strings.Compare(x.Ref(), y.Ref()) })
	after := make([]*ippool.Pool, len(pools))
	errs := inParallel(parallelPools, pools, func(p *ippool.Pool) (err error) {
		after[slices.Index(pools, p)], err = e.patchPool(ctx, h, p, by[p])
		return err
	})
	for i, p := range pools {
		if errors.Is(errs[i], ErrConflict) {
			errs[i] = e.deniedOrConflict(p, errs[i])
		}
		for _, c := range by[p] {
			c.notePatch(errs[i])
		}
		if errs[i] == nil {
			e.History.noteWrite(after[i])
			wrote.Pools[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = after[i]
		}
	}
}

// patchPool removes entries from a pool or writes entries into it, and returns the pool as it is then. One that is
// not there is created with its entries: an ADD that is faster makes that a conflict.
func (e *executor) patchPool(ctx context.Context, h *Hold, p *ippool.Pool, changes []*change) (after *ippool.Pool, err error) {
	var patch []byte
	var version string
	removed, written := entriesOf(changes)
	switch isRepair := len(written) > 0; {
	case !isRepair:
		patch, err = ippool.RemovePatch(p, removed)
	case !h.mayBegin(ctx, e.Clock):
		return nil, ErrHoldSpent
	case !changes[0].finding.Repair.NewPool:
		patch, err = ippool.WritePatch(p, written)
	}
	if err != nil {
		return nil, notSent{err}
	}
	err = e.writeUnderHold(ctx, h, func(ctx context.Context) (err error) {
		if patch == nil {
			version, err = e.Writer.CreatePool(ctx, p.AsNew(written))
		} else {
			version, err = e.Writer.PatchPool(ctx, p, patch)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(written) > 0:
		return p.With(written, version), nil
	}
	return p.Without(removed, version), nil
}

// entriesOf are the entries that releases remove and repairs write.
func entriesOf(changes []*change) (removed []ippool.Allocation, written []ippool.NewEntry) {
	for _, c := range changes {
		if c.finding == nil {
			removed = append(removed, *c.Allocation)
			continue
		}
		w := c.finding.Repair
		written = append(written, ippool.NewEntry{Key: w.Key, ContainerID: w.ContainerID, PodRef: w.PodRef, IfName: w.IfName, Replaces: w.Previous})
	}
	return removed, written
}

// deniedOrConflict takes a conflict for a denial where the pool has still the resourceVersion at which a patch met
// one before: it was read since, and nobody had changed it.
func (e *executor) deniedOrConflict(p *ippool.Pool, conflict error) error {
	before, known := e.conflicts[p.Ref()]
	e.conflicts[p.Ref()] = p.ResourceVersion
	if known && before == p.ResourceVersion {
		return fmt.Errorf("%w: the pool has not changed: %v", ErrForbidden, conflict) //nolint:errorlint // it is no conflict
	}
	return conflict
}

// createReservations creates the reservations that findings miss.
func (e *executor) createReservations(ctx context.Context, h *Hold, changes []*change) {
	wrote := &judge.Live{Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	errs := inParallel(parallelWrites, changes, func(c *change) error {
		if !h.mayBegin(ctx, e.Clock) {
			return ErrHoldSpent
		}
		return e.createReservation(ctx, h, c.finding.Repair)
	})
	for i, c := range changes {
		if c.notePatch(errs[i]); errs[i] == nil {
			r := ippool.ReadReservation(c.finding.Repair.NewReservation())
			wrote.Reservations[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
		}
	}
	e.x = e.x.With(wrote)
}

// createReservation creates a reservation. One in its place that another pod has outlived is deleted before, with its
// UID and resourceVersion: left alone it would let that pod have the address from a pool with an overlapping range.
func (e *executor) createReservation(ctx context.Context, h *Hold, w *judge.Repair) error {
	create := func(ctx context.Context) error { return e.Writer.CreateReservation(ctx, w.NewReservation()) }
	if w.PreviousReservation == nil {
		return e.writeUnderHold(ctx, h, create)
	}
	if err := e.writeUnderHold(ctx, h, func(ctx context.Context) error { return e.Writer.DeleteReservation(ctx, w.PreviousReservation) }); err != nil {
		return err
	}
	ctx, cancel := detached(ctx) // it must not be left half done
	defer cancel()
	return create(ctx)
}

// writeUnderHold makes one write if the hold allows for it. One that is under way is not broken off when the hold
// ends: it carries its proof, and the API server would have worked on it in vain.
func (e *executor) writeUnderHold(ctx context.Context, h *Hold, write func(context.Context) error) error {
	if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	began := e.Clock.Now()
	err := write(ctx)
	h.noteLatency(e.Clock.Since(began))
	return err
}

// inParallel calls do for each of all, limit at a time, and returns their errors.
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
