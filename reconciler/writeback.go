package reconciler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// write writes what the findings say is missing: entries with one patch for each
// pool, reservations one by one. It returns the findings of which that failed.
func (m *repairs) write(ctx context.Context, h *Hold, findings []*Finding) (failed []*Finding, err error) {
	entries := map[*ippool.Pool][]*Finding{}
	var reservations []*Finding
	for _, f := range findings {
		switch pool := f.repair.in(); {
		case pool.Paused:
			m.failed([]*Finding{f}, fmt.Errorf("pool %s is paused by its annotation %s", pool.Ref(), ippool.PausedAnnotation))
		case f.repair.pool != nil:
			entries[pool] = append(entries[pool], f)
		default:
			reservations = append(reservations, f)
		}
	}
	for _, pool := range sortedPools(entries) {
		if perr := m.writeEntries(ctx, h, pool, entries[pool]); perr != nil {
			failed, err = append(failed, entries[pool]...), worse(err, perr)
			continue
		}
		m.done(entries[pool]...)
	}
	errs := make([]error, len(reservations))
	var g errgroup.Group
	g.SetLimit(parallelWrites)
	for i, f := range reservations {
		g.Go(func() error {
			errs[i] = ErrHoldSpent
			if h.open(ctx, m.Clock) {
				errs[i] = m.during(ctx, h, func(ctx context.Context) error { return m.createReservation(ctx, f.repair) })
			}
			return nil
		})
	}
	_ = g.Wait()
	for i, f := range reservations {
		if errs[i] != nil {
			failed, err = append(failed, f), worse(err, errs[i])
			continue
		}
		m.done(f)
	}
	return failed, err
}

func sortedPools[T any](by map[*ippool.Pool]T) []*ippool.Pool {
	pools := make([]*ippool.Pool, 0, len(by))
	for p := range by {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(x, y *ippool.Pool) int { return strings.Compare(x.Ref(), y.Ref()) })
	return pools
}

func (m *repairs) done(findings ...*Finding) {
	for _, f := range findings {
		m.Log.Info("repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods)
		m.out.Repaired = append(m.out.Repaired, *f)
	}
}

func (m *repairs) writeEntries(ctx context.Context, h *Hold, pool *ippool.Pool, findings []*Finding) error {
	entries := make([]ippool.NewEntry, 0, len(findings))
	for _, f := range findings {
		w := f.repair
		entries = append(entries, ippool.NewEntry{Key: w.key, ContainerID: w.containerID, PodRef: w.podRef, IfName: w.ifName})
	}
	patch, err := ippool.WritePatch(pool, entries)
	if err != nil {
		return err
	}
	return m.during(ctx, h, func(ctx context.Context) error {
		_, err := m.Writer.PatchPool(ctx, pool, patch)
		return err
	})
}

func (m *repairs) createReservation(ctx context.Context, w *repair) error {
	return m.Writer.CreateReservation(ctx, ippool.NewReservation(w.item.Pool.Namespace, w.network, w.address, w.podRef, w.ifName))
}
