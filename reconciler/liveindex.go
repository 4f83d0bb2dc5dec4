package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// refreshEvery is how old reports, Leases, Nodes and definitions may be when
// something is judged that is about to be written.
const refreshEvery = 5 * time.Second

// liveIndex is what writes are judged on: what was read last, with what live reads found
// and what our own writes did since.
type liveIndex struct {
	*Reconciler
	first     *judge.Observation // of before the first refresh
	x         *judge.Index       // nil before it
	refreshed time.Time
}

// observation is what the index was built from, with what was found since but for pods and reservations.
func (b *liveIndex) observation() *judge.Observation { return b.x.BasedOn() }

// refresh reads again what is not read live, where that was long ago. It is best called while no Lease is held.
func (b *liveIndex) refresh(ctx context.Context) error {
	if !b.refreshed.IsZero() && b.Clock.Since(b.refreshed) < refreshEvery {
		return nil
	}
	before := b.first
	if b.x != nil {
		before = b.x.Observation()
	}
	o, err := b.Source.Relist(ctx, before)
	if err != nil {
		return fmt.Errorf("read reports, nodes and pools again: %w", err)
	}
	b.History.checkRevision(o)
	o.Restored = cmp.Or(o.Restored, before.Restored)
	o.Local, o.Fenced = before.Local, b.fencedSince()
	if o.Now.Before(before.Now) {
		o.Now = before.Now // the API server tells the time to the second; what was confirmed stays so
	}
	b.x, b.refreshed = judge.NewIndex(o, b.History, b.Options.judging()), b.Clock.Now()
	return nil
}

// read makes a live read and puts what it found into the index.
func (b *liveIndex) read(ctx context.Context, need LiveKeys) error {
	live, err := b.Source.GetLive(ctx, b.observation(), need)
	if err != nil {
		return fmt.Errorf("live read: %w", err)
	}
	b.x = b.x.With(live)
	if live.Restored != "" {
		b.History.noteRestore(b.observation())
	}
	return nil
}
