package reconciler

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
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	parallelWrites = 16 // how many reservations are deleted or created at once
	parallelPools  = 2  // how many pools are written at once: a large one takes most of a core of the API server
)

// write deletes the reservations of allocations, patches pools, and creates reservations. A write that fails ends its
// change for this hold. write returns the changes that failed.
func (e *executor) write(ctx context.Context, h *hold, changes checkedChanges) (failed []*change) {
	for _, c := range changes {
		c.err = nil
	}
	written := &judge.Live{
		Pools: map[types.NamespacedName]*ippool.Pool{}, Reservations: map[types.NamespacedName]*ippool.Reservation{},
	}
	e.deleteReservations(ctx, h, changes, written)
	e.patchPools(ctx, h, changes, written)
	e.x = e.x.With(written)
	all := slices.Clone([]*change(changes))
	for _, c := range changes {
		if c.finding != nil && c.state == done {
			all = append(all, e.missingReservation(c)...)
		}
	}
	creates, _ := partition(all, func(c *change) bool { return c.finding != nil && c.pool() == nil })
	if len(creates) > 0 {
		e.createReservations(ctx, h, creates)
	}
	for _, c := range all {
		if c.state == done {
			e.writes++
			e.finish(c)
		} else {
			failed = append(failed, c)
		}
	}
	return failed
}

// deleteReservations deletes the reservations of changes, once where two allocations share one.
func (e *executor) deleteReservations(ctx context.Context, h *hold, changes []*change, written *judge.Live) {
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
		if !h.mayBegin(e.Clock) { // the rest of the time is for the allocations
			return apply.ErrHoldSpent
		}
		remove := func(ctx context.Context) error { return h.DeleteReservation(ctx, r) }
		err := e.writeUnderHold(ctx, h, remove)
		if outcomeOf(err) == uncertain && e.writeUnderHold(ctx, h, remove) == nil { // the first cannot match any more
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
		for _, r := range c.deletes {
			c.noteDelete(r, answers[r])
		}
	}
}

// patchPools removes and writes the allocations of changes of which no delete failed, with one patch per pool.
func (e *executor) patchPools(ctx context.Context, h *hold, changes []*change, written *judge.Live) {
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
		if errors.Is(errs[i], apply.ErrConflict) {
			errs[i] = e.deniedOrConflict(p, errs[i])
		}
		for _, c := range by[p] {
			c.notePatch(errs[i])
		}
		if errs[i] == nil {
			written.Pools[p.NamespacedName] = after[i]
		}
	}
	e.known.State = e.known.WithVersions(written.Pools)
}

// patchPool removes allocations from a pool or writes some into it, and returns the pool after the write. A pool that
// does not exist is created with its allocations; if an ADD creates it first, that is a conflict.
func (e *executor) patchPool(
	ctx context.Context, h *hold, p *ippool.Pool, changes []*change,
) (after *ippool.Pool, err error) {
	var patch []byte
	var version string
	removed, added := entriesOf(changes)
	switch isRepair := len(added) > 0; {
	case !isRepair:
		patch, err = ippool.RemovePatch(p, removed)
	case !h.mayBegin(e.Clock):
		return nil, apply.ErrHoldSpent
	case !changes[0].finding.Repair.NewPool:
		patch, err = ippool.WritePatch(p, added)
	}
	if err != nil {
		return nil, notSent{err}
	}
	err = e.writeUnderHold(ctx, h, func(ctx context.Context) (err error) {
		if patch == nil {
			version, err = h.CreatePool(ctx, p, added)
		} else {
			version, err = h.PatchPool(ctx, p, patch)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(added) > 0:
		return p.With(added, version), nil
	}
	return p.Without(removed, version), nil
}

// entriesOf returns the allocations that releases remove and repairs add.
func entriesOf(changes []*change) (removed []ippool.Allocation, added []ippool.NewEntry) {
	for _, c := range changes {
		if c.finding == nil {
			removed = append(removed, *c.Allocation)
			continue
		}
		w := c.finding.Repair
		added = append(added, ippool.NewEntry{
			Key: w.Key, ContainerID: w.ContainerID, PodRef: w.PodRef, IfName: w.IfName, Replaces: w.Previous,
		})
	}
	return removed, added
}

// deniedOrConflict turns a conflict into ErrForbidden where nobody has changed the pool since an earlier conflict.
func (e *executor) deniedOrConflict(p *ippool.Pool, conflict error) error {
	before, known := e.conflicts[p.Ref()]
	e.conflicts[p.Ref()] = p.ResourceVersion
	if known && before == p.ResourceVersion {
		//nolint:errorlint // no conflict any more
		return fmt.Errorf("%w: the pool has not changed: %v", apply.ErrForbidden, conflict)
	}
	return conflict
}

func (e *executor) createReservations(ctx context.Context, h *hold, changes []*change) {
	written := &judge.Live{Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	errs := inParallel(parallelWrites, changes, func(c *change) error {
		if !h.mayBegin(e.Clock) {
			return apply.ErrHoldSpent
		}
		return e.createReservation(ctx, h, c.finding.Repair)
	})
	for i, c := range changes {
		if c.notePatch(errs[i]); errs[i] == nil {
			r := c.finding.Repair.NewReservation()
			written.Reservations[r.NamespacedName] = r
		}
	}
	e.x = e.x.With(written)
}

// createReservation creates a reservation. First it deletes the reservation of a pod that has ended, by UID and
// resourceVersion: that one would let its pod have the address from a pool with an overlapping range.
func (e *executor) createReservation(ctx context.Context, h *hold, w *judge.Repair) error {
	create := func(ctx context.Context) error { return h.CreateReservation(ctx, w.NewReservation()) }
	if w.PreviousReservation == nil {
		return e.writeUnderHold(ctx, h, create)
	}
	err := e.writeUnderHold(ctx, h, func(ctx context.Context) error {
		return h.DeleteReservation(ctx, w.PreviousReservation)
	})
	if err != nil {
		return err
	}
	ctx, cancel := detached(ctx) // must complete
	defer cancel()
	return create(ctx)
}

// writeUnderHold makes one write if the hold allows it. The end of the hold does not cancel the write: it carries its
// proof, and the API server would have worked in vain.
func (e *executor) writeUnderHold(ctx context.Context, h *hold, write func(context.Context) error) error {
	if !h.mayWrite() {
		return apply.ErrHoldSpent
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	sent := e.Clock.Now()
	err := write(ctx)
	took := e.Clock.Since(sent)
	if h.noteLatency(took); err != nil && took >= apply.MaxHold {
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
