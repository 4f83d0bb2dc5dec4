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
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// writeBackFor is for how long after a hold began writes are begun under it, and for
// half as long at least: ADDs are kept off for a second at most, unless a large pool
// takes the API server longer.
const writeBackFor = 700 * time.Millisecond

// write writes what the findings say is missing or wrong: entries with one patch for
// each pool, then their reservations. It returns the findings of which that failed,
// and reservations that there was no time for.
func (m *repairBatch) write(ctx context.Context, h *Hold, findings []*repairAttempt) (left []*repairAttempt, err error) {
	entries := map[*ippool.Pool][]*repairAttempt{}
	var reservations []*repairAttempt
	for _, f := range findings {
		switch pool := f.Repair.Pool; {
		case pool.Paused:
			m.failed([]*repairAttempt{f}, fmt.Errorf("%w: pool %s, by its annotation %s", errPaused, pool.Ref(), ippool.PausedAnnotation))
		case f.Repair.Key != "":
			entries[pool] = append(entries[pool], f)
		default:
			reservations = append(reservations, f)
		}
	}
	left, err = m.writeEntries(ctx, h, entries)
	for _, pool := range sortedPools(entries) {
		for _, f := range entries[pool] {
			if r := m.reservationOf(f); r != nil && !slices.Contains(left, f) {
				reservations = append(reservations, r)
			}
		}
	}
	failed, rerr := m.writeReservations(ctx, h, reservations)
	return append(left, failed...), moreSevere(err, rerr)
}

func sortedPools[T any](by map[*ippool.Pool]T) []*ippool.Pool {
	pools := make([]*ippool.Pool, 0, len(by))
	for p := range by {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(x, y *ippool.Pool) int { return strings.Compare(x.Ref(), y.Ref()) })
	return pools
}

func (m *repairBatch) done(f *repairAttempt) {
	m.Log.Info("repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods, "podRef", f.Repair.PodRef, "containerID", f.Repair.ContainerID)
	m.out.Repaired = append(m.out.Repaired, *f.Finding)
	m.wrote++
	if !f.follow {
		m.out.ToRepair--
	}
	if f.unasked {
		m.History.noteRepair(m.observation().Now, f.Repair)
	}
}

// writeEntries patches the pools beside each other, and makes those that are not there.
func (m *repairBatch) writeEntries(ctx context.Context, h *Hold, by map[*ippool.Pool][]*repairAttempt) (failed []*repairAttempt, err error) {
	pools := sortedPools(by)
	errs, versions := make([]error, len(pools)), make([]string, len(pools))
	var g errgroup.Group
	g.SetLimit(parallelPools)
	for i, pool := range pools {
		g.Go(func() error {
			errs[i] = ErrHoldSpent
			if h.mayBegin(ctx, m.Clock) {
				versions[i], errs[i] = m.writePool(ctx, h, pool, by[pool])
			}
			return nil
		})
	}
	_ = g.Wait()
	wrote := &judge.Live{Pools: map[types.NamespacedName]*ippool.Pool{}}
	for i, pool := range pools {
		switch {
		case errs[i] == nil:
		case errors.Is(errs[i], ErrForbidden): // the others may be allowed
			m.failed(by[pool], errs[i])
			delete(by, pool)
			continue
		default:
			failed, err = append(failed, by[pool]...), moreSevere(err, errs[i])
			if errors.Is(errs[i], ErrConflict) {
				m.out.Conflicts++
			}
			continue
		}
		after := pool.With(newEntries(by[pool]), versions[i])
		wrote.Pools[types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}] = after
		m.History.noteWrite(after)
		for _, f := range by[pool] {
			m.done(f)
		}
	}
	m.x = m.x.With(wrote)
	return failed, err
}

func newEntries(findings []*repairAttempt) []ippool.NewEntry {
	entries := make([]ippool.NewEntry, 0, len(findings))
	for _, f := range findings {
		w := f.Repair
		entries = append(entries, ippool.NewEntry{Key: w.Key, ContainerID: w.ContainerID, PodRef: w.PodRef, IfName: w.IfName, Replaces: w.Instead})
	}
	return entries
}

// writePool writes entries into a pool. One that is not there is made with them: an ADD that
// is faster makes that a conflict.
func (m *repairBatch) writePool(ctx context.Context, h *Hold, pool *ippool.Pool, findings []*repairAttempt) (version string, err error) {
	entries := newEntries(findings)
	write := func(ctx context.Context) (err error) {
		version, err = m.Writer.CreatePool(ctx, pool.AsNew(entries))
		return err
	}
	if !findings[0].Repair.NewPool {
		patch, err := ippool.WritePatch(pool, entries)
		if err != nil {
			return "", err
		}
		write = func(ctx context.Context) (err error) {
			version, err = m.Writer.PatchPool(ctx, pool, patch)
			return err
		}
	}
	err = m.writeUnderHold(ctx, h, write)
	return version, err
}

// reservationOf is the missing reservation of an entry that was written; nil where it
// needs none, has it, or another pod needs the one that is there.
func (m *repairBatch) reservationOf(f *repairAttempt) *repairAttempt {
	missing := m.x.ReservationOf(f.Finding)
	if missing == nil {
		return nil
	}
	return &repairAttempt{Finding: missing, leases: f.leases, waited: f.waited, follow: true}
}

func (m *repairBatch) writeReservations(ctx context.Context, h *Hold, findings []*repairAttempt) (failed []*repairAttempt, err error) {
	errs := make([]error, len(findings))
	var g errgroup.Group
	g.SetLimit(parallelWrites)
	for i, f := range findings {
		g.Go(func() error {
			errs[i] = ErrHoldSpent
			if h.mayBegin(ctx, m.Clock) {
				errs[i] = m.writeReservation(ctx, h, f.Repair)
			}
			return nil
		})
	}
	_ = g.Wait()
	wrote := &judge.Live{Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	for i, f := range findings {
		if errs[i] != nil {
			f.unsure = !errors.Is(errs[i], ErrHoldSpent)
			failed, err = append(failed, f), moreSevere(err, errs[i])
			continue
		}
		r := ippool.ReadReservation(f.Repair.NewReservation())
		wrote.Reservations[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
		m.done(f)
	}
	m.x = m.x.With(wrote)
	return failed, err
}

// writeReservation creates a reservation. One in its place that another pod has
// outlived is deleted before, with its UID and resourceVersion: left alone it would let
// that pod have the address from a pool with an overlapping range.
func (m *repairBatch) writeReservation(ctx context.Context, h *Hold, w *judge.Repair) error {
	create := func(ctx context.Context) error { return m.Writer.CreateReservation(ctx, w.NewReservation()) }
	if w.Replaced == nil {
		return m.writeUnderHold(ctx, h, create)
	}
	if err := m.writeUnderHold(ctx, h, func(ctx context.Context) error { return m.Writer.DeleteReservation(ctx, w.Replaced) }); err != nil {
		return err
	}
	ctx, cancel := detached(ctx) // it must not be left half done
	defer cancel()
	return create(ctx)
}
