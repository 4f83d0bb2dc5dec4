package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// heldRelease is what is done for a batch while the Leases are held.
type heldRelease struct {
	*batch
	ready    prepared
	left     []*releaseAttempt // those that must be tried again
	size     int               // how many there were to try
	reread   bool              // pools that have changed are read in full
	conflict error             // what had changed; nil for nothing

	asked, began, read time.Time // when the Leases were asked for, when they were held, and when all was read
}

// run checks what can have changed since the Leases were asked for, and writes. The error
// is ErrConflict where something had changed and was not written in the end.
func (w *heldRelease) run(ctx context.Context, h *Hold) error {
	w.began = w.Clock.Now()
	if err := w.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return err
	}
	if !h.Until.IsZero() { // what that took is not taken from the work
		h.Until = h.Until.Add(w.Clock.Since(w.began))
	}
	// The Lease does not keep those out who write without it: after a conflict
	// the pool is read again once before the Lease is given back.
	for round := range 2 {
		again, err := w.round(ctx, h, w.reread || round > 0)
		if err != nil {
			return err
		}
		if !again {
			break
		}
	}
	if len(w.left) == 0 {
		w.pace.fits(w.size, w.Clock.Since(w.began))
		return nil
	}
	return w.conflict
}

// round makes the second check and writes what is still Stale. It reports whether another
// one has a purpose.
func (w *heldRelease) round(ctx context.Context, h *Hold, reread bool) (again bool, err error) {
	work, without := covered(w.left, h, func(t *releaseAttempt) []string { return t.leases })
	if len(work) == 0 {
		return false, cmp.Or(w.conflict, errLeaseMissing)
	}
	still, changed, err := w.recheck(ctx, work, reread)
	if err != nil {
		w.left = slices.Concat(changed, still, without)
		return false, err
	}
	w.read = w.Clock.Now()
	failed, err := w.write(ctx, h, still, w.ready)
	w.left = slices.Concat(failed, changed, without)
	if len(changed) > 0 {
		w.invalidate() // they are read without the Lease
		w.conflict = cmp.Or(w.conflict, fmt.Errorf("%w: pool %s", ErrConflict, changed[0].Object()))
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		return false, err
	}
	w.conflict = cmp.Or(err, w.conflict)
	return len(failed) > 0 && err != nil && h.mayBegin(ctx, w.Clock), nil
}

func (w *heldRelease) log(err error) {
	if w.read.IsZero() {
		return
	}
	w.Log.Debug("a hold of the Lease", "namespace", w.namespace, "leases", w.leases, "items", len(w.ready.items), "left", len(w.left),
		"waited", w.began.Sub(w.asked), "read", w.read.Sub(w.began), "wrote", w.Clock.Since(w.read), "error", err)
}
