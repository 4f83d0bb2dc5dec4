package reconciler

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Hold is a hold of whereabouts' Leases as the work under it sees it. The zero
// value is one without any bound: nobody waits for it.
type Hold struct {
	// Leases are those that are held; nil where no Lease is needed.
	Leases []string
	// Until is when the work should come to its end, so that ADDs are not kept waiting: nothing is begun then but what
	// finishes what was begun. Zero for no such time.
	Until time.Time
	// MayWrite reports whether a write may begin now; nil for always.
	MayWrite func() bool

	late atomic.Bool // the answer to a write was
}

// lateAfter is how long a write may take before its answer counts as late. A write begins within 700 ms of a renewal,
// and others may take a Lease 1.5 s after it: a server that needs longer than what lies between is too slow to rely on,
// whatever it answers.
const lateAfter = 800 * time.Millisecond

// covers reports whether all these Leases are held.
func (h *Hold) covers(leases []string) bool {
	return h.Leases == nil || !slices.ContainsFunc(leases, func(l string) bool { return !slices.Contains(h.Leases, l) })
}

// mayBegin reports whether new work may begin: something that is not needed to finish what was begun.
func (h *Hold) mayBegin(ctx context.Context, c clock.PassiveClock) bool {
	return h.mayWrite(ctx) && (h.Until.IsZero() || c.Now().Before(h.Until))
}

func (h *Hold) mayWrite(ctx context.Context) bool {
	return ctx.Err() == nil && !h.late.Load() && (h.MayWrite == nil || h.MayWrite())
}

// noteLatency takes note of how long a write took: one that was late ends the hold.
func (h *Hold) noteLatency(took time.Duration) {
	if h.MayWrite != nil && took > lateAfter {
		h.late.Store(true)
	}
}

// putBackKey marks the context of writes that undo what was deleted.
type putBackKey struct{}

func puttingBack(ctx context.Context) context.Context {
	return context.WithValue(ctx, putBackKey{}, true)
}

// IsPutBack reports whether a write undoes what was deleted: no other write is sent outside of a hold.
func IsPutBack(ctx context.Context) bool { return ctx.Value(putBackKey{}) != nil }
