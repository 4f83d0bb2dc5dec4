package informers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// List returns what the caches hold. The error is ErrCacheUnverified where
// that may differ from what the API server has.
func (s *Source) List(ctx context.Context) (*judge.Observation, error) {
	current := s.session()
	if current == nil {
		return nil, fmt.Errorf("%w: there are none yet", ErrCacheUnverified)
	}
	if err := s.verify(ctx, current); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCacheUnverified, err)
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	o := current.view.observe(last)
	s.reports.setMissed(o)
	return o, nil
}

// verify returns why the caches cannot be relied upon, nil if they can.
func (s *Source) verify(ctx context.Context, current *session) error {
	if err := current.watches.reliable(current.kinds); err != nil {
		return err
	}
	why, err := current.watches.compareOnce(func() (string, error) { return s.backwards(ctx, current) })
	if err != nil {
		return err
	}
	if why != "" {
		current.watches.invalidate()
		s.setRestored(why)
		return errors.New(why)
	}
	return nil
}

// full is the Source whose List reads by quorum, and verifies the caches.
type full struct{ *Source }

// Full is the cluster as a source that reads by quorum and compares the caches with what it read.
func (s *Source) Full() reconciler.Source { return full{s} }

// List reads everything by quorum, and compares the caches with that.
func (f full) List(ctx context.Context) (*judge.Observation, error) {
	for {
		pass, end := context.WithCancel(ctx)
		f.fullPassBegins(end)
		o, err := f.listAndVerify(pass)
		restarted := pass.Err() != nil && ctx.Err() == nil
		end()
		if err == nil || !restarted {
			return o, err
		}
	}
}

func (f full) listAndVerify(ctx context.Context) (*judge.Observation, error) {
	current := f.session()
	if current == nil {
		o, err := f.cluster.List(ctx)
		if err == nil {
			f.remember(o)
			f.reportRestore(o, "")
		}
		return o, err
	}
	before := current.watches.events()
	current.view.beginComparison()
	defer current.view.endComparison()
	o, err := f.cluster.List(ctx)
	if err != nil {
		return nil, err
	}
	differs, older, err := current.settle(ctx, o, f.settleFor)
	if err != nil {
		return nil, err
	}
	f.remember(o)
	restored, err := f.backwards(ctx, current)
	f.reportRestore(o, cmp.Or(restored, older))
	switch {
	case o.Restored != "":
		f.discard(o.Restored)
	case f.kindsChanged(ctx, current):
		f.Rebuild("what may be watched has changed")
	case err != nil: // not known to agree
	case differs == "":
		current.watches.setVerified(before)
	case current.watches.areOpenSince(before, current.kinds): // else a watch that was closed delivers later what it has missed
		f.discard(differs)
	}
	return o, nil
}

// settle returns how the caches differ from what was read, and what shows that etcd was restored, once the caches had time
// to catch up: what a cache has held unchanged since before the read although it was read otherwise is an object that the
// cache has lost or that is gone.
func (c *session) settle(ctx context.Context, o *judge.Observation, settleFor time.Duration) (differs, older string, err error) {
	for end := time.Now().Add(settleFor); ; {
		if differs, older = c.view.differences(o, c.kinds); differs == "" || !time.Now().Before(end) {
			return differs, older, nil
		}
		select {
		case <-ctx.Done():
			return "", "", ctx.Err()
		case <-time.After(settleFor / 20):
		}
	}
}

// reportRestore puts into an observation what showed that etcd was restored since the one
// before: what a cache pass or the caches themselves saw, or what this read shows.
func (f full) reportRestore(o *judge.Observation, why string) {
	if o.Restored = cmp.Or(f.takeRestore(), why); o.Restored != "" && f.OnRestore != nil {
		f.OnRestore(o.Restored, o.Now)
	}
}

// discard throws caches away that are not consistent with the API server.
func (f full) discard(why string) {
	f.Rebuild(why)
	if f.OnRebuild != nil {
		f.OnRebuild(why)
	}
}

// remember keeps for cache passes what is not watched.
func (f full) remember(o *judge.Observation) {
	f.reports.setMissed(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &judge.Observation{Warnings: o.Warnings, ReportsUnreadable: o.ReportsUnreadable, Paused: o.Paused, Acknowledged: o.Acknowledged}
}
