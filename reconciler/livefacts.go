package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

const (
	refreshEvery = 5 * time.Second // how old reports, Leases, Nodes and definitions may be at the second check
	// maxRefresh is how long reading them may take: while one request hangs, the other answers grow old. The lists
	// of a large cluster take some seconds.
	maxRefresh = 15 * time.Second
)

// liveFacts are what the second check judges on: the last refresh, with live reads and our own writes since. It is an
// apply.Reader.
type liveFacts struct {
	r           *Reconciler
	first       *facts.Observation // before the first refresh
	facts       *facts.Facts       // nil before it
	known       Known              // before it what the pass knows
	restored    string             // what has shown a restore since the pass began, "" for nothing
	refreshedAt time.Time
}

// Facts are what was read last, nil before the first refresh.
func (b *liveFacts) Facts() *facts.Facts { return b.facts }

// observation is what they were built from, updated except for pods and reservations.
func (b *liveFacts) observation() *facts.Observation { return b.facts.Base() }

// Refresh reads again what live reads leave out, if the last refresh is too old; if possible while no Lease is held.
func (b *liveFacts) Refresh(ctx context.Context) error {
	if !b.refreshedAt.IsZero() && b.r.Clock.Since(b.refreshedAt) < refreshEvery {
		return nil
	}
	before := b.first
	if b.facts != nil {
		before = b.facts.Observation()
	}
	ctx, cancel := context.WithTimeout(ctx, maxRefresh)
	defer cancel()
	b.known.State = b.known.BeginRead()
	o, err := b.r.Source.Relist(ctx, before)
	if err == nil && b.first.Watched {
		b.known = b.known.with(b.r.loadRestore(ctx, b.known.State, o))
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		b.learn(b.known.afterFailure(o, b.r.Clock.Now()))
		return fmt.Errorf("read reports, nodes and pools again: %w", err)
	}
	observed, restored := b.known.Observe(o)
	b.restored = cmp.Or(restored, b.restored, before.Restored)
	b.known, o.Restored = b.known.with(observed), b.restored
	o.Local, o.FencedSince = before.Local, b.r.fencedSince()
	if o.Now.Before(before.Now) {
		o.Now = before.Now // the API server's time has whole seconds; confirmed verdicts stay confirmed
	}
	b.facts, b.refreshedAt = facts.New(o, b.known, b.r.Options.JudgePolicy()), b.r.Clock.Now()
	return nil
}

// Read makes a live read and lays the result over the facts.
func (b *liveFacts) Read(ctx context.Context, need facts.LiveKeys) error {
	live, err := b.r.Source.GetLive(ctx, b.observation(), need)
	if live != nil {
		s, restored := b.known.ReadLive(live, b.observation().Now)
		b.learn(b.known.with(s), restored)
		live.Restored = b.restored
	}
	if err != nil {
		return fmt.Errorf("live read: %w", err)
	}
	b.facts = b.facts.With(live)
	return nil
}

// learn is what a read has shown, also one that failed, and what shows a restore, "" for nothing. What that may have
// brought back proves nothing any more, and what was read before it neither.
func (b *liveFacts) learn(next Known, restored string) {
	b.restored = cmp.Or(b.restored, restored)
	if b.facts != nil && next.IsNewerThan(b.known.State) {
		b.facts = b.facts.WithDoubts(next)
	}
	b.known = next
}

// Wrote lays what was written over the facts.
func (b *liveFacts) Wrote(written *facts.Live) {
	b.known.State = b.known.Wrote(written.Pools)
	b.facts = b.facts.With(written)
}
