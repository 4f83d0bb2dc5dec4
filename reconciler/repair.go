package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// repairAfter is how long a finding must have stood, seen twice, before it is
// mended: an ADD in progress looks the same for a moment.
const repairAfter = time.Minute

// repair mends the findings that have stood for long enough, and returns when
// the next will have; zero if none waits.
func (r *Reconciler) repair(ctx context.Context, j *Judgement, out *Result) time.Time {
	o := j.Observation
	if o.Paused {
		return time.Time{} // and the findings' ages begin anew
	}
	known := map[string]time.Time{}
	var until time.Time
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.repair == nil || f.repair.in().Paused {
			continue
		}
		key := f.key()
		first, seen := r.History.repairs[key]
		if !seen {
			first = o.Now
		}
		known[key] = first
		if ripe := first.Add(repairAfter); !r.Options.Settled && ripe.After(o.Now) {
			until = Sooner(until, ripe)
			continue
		}
		delete(known, key)
		r.progress("writing %s back into %s", f.IP, f.Pool)
		wrote, err := r.mend(ctx, o, f)
		for try := 1; err != nil && try < tries && !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrLeaseForbidden) && !errors.Is(err, ErrLeaseBusy) && ctx.Err() == nil; try++ {
			r.wait(ctx, 100*time.Millisecond<<try) // the hold was too short, or somebody was faster
			wrote, err = r.mend(ctx, o, f)
		}
		if err != nil {
			r.Log.Warn("not repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
			out.Unrepaired = append(out.Unrepaired, fmt.Sprintf("%s of %s in %s: %v", f.Kind, f.IP, f.Pool, err))
			continue
		}
		if !wrote {
			continue // mended by itself
		}
		r.Log.Info("repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods)
		out.Repaired = append(out.Repaired, *f)
	}
	r.History.repairs = known
	return until
}

func (f *Finding) key() string {
	return fmt.Sprint(f.Kind, f.Pool, f.IP, f.repair.podRef, f.repair.containerID)
}

// mend looks once more, under the Lease, and writes where the finding still stands.
func (r *Reconciler) mend(ctx context.Context, o *Observation, f *Finding) (wrote bool, err error) {
	base, err := r.Source.Refresh(ctx, o)
	if err != nil {
		return false, fmt.Errorf("read reports, nodes and pools anew: %w", err)
	}
	if r.History.checkRevision(base); base.Restored != "" {
		return false, fmt.Errorf("etcd was restored (%s): what was seen before is no ground to write", base.Restored)
	}
	if base.Paused {
		return false, fmt.Errorf("everything is paused by the annotation %s", ippool.PausedAnnotation)
	}
	pool := f.repair.in()
	need := Need{
		Reread:       true,
		Pools:        []types.NamespacedName{{Namespace: pool.Namespace, Name: pool.Name}},
		Reservations: []types.NamespacedName{{Namespace: pool.Namespace, Name: ippool.ReservationName(f.repair.network, f.repair.address)}},
	}
	if ref, err := ippool.ParsePodRef(f.repair.podRef); err == nil {
		need.Pods = []types.NamespacedName{{Namespace: ref.Namespace, Name: ref.Name}}
	}
	leases := append([]string{ippool.SharedLease}, slices.DeleteFunc(pool.LeaseNames(), func(n string) bool { return n == ippool.SharedLease })...)
	err = r.Writer.Hold(ctx, pool.Namespace, leases, func(ctx context.Context, h *Hold) error {
		if !h.covers(leases) {
			return errLeaseMissing
		}
		live, err := r.Source.Fresh(ctx, base, need)
		if err != nil {
			return fmt.Errorf("live read: %w", err)
		}
		fresh := base.with(live)
		fresh.Past = r.History
		for _, g := range Judge(fresh, r.Options.Policy).Findings {
			if g.repair == nil || g.key() != f.key() {
				continue
			}
			if !h.mayWrite(ctx) {
				return ErrHoldSpent
			}
			wrote = true
			return r.writeBack(ctx, g.repair)
		}
		return nil
	})
	return wrote && err == nil, err
}

// in is the pool that a repair is about.
func (w *repair) in() *ippool.Pool {
	if w.pool != nil {
		return w.pool
	}
	return w.item.Pool
}

func (r *Reconciler) writeBack(ctx context.Context, w *repair) error {
	if pool := w.in(); pool.Paused {
		return fmt.Errorf("pool %s is paused by its annotation %s", pool.Ref(), ippool.PausedAnnotation)
	}
	if w.pool == nil {
		return r.Writer.CreateReservation(ctx, ippool.NewReservation(w.item.Pool.Namespace, w.network, w.address, w.podRef, w.ifName))
	}
	patch, err := ippool.AddPatch(w.pool, w.key, w.containerID, w.podRef, w.ifName)
	if err != nil {
		return err
	}
	_, err = r.Writer.PatchPool(ctx, w.pool, patch)
	return err
}
