package informers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// FullConfig is what a Full works with. The callbacks may be nil, and must not block.
type FullConfig struct {
	// Settle is how long the caches may take to catch up with a first read before a
	// second is made; 2 s if zero.
	Settle time.Duration
	// OnRestore is called with what shows in an observation that etcd was restored, and
	// when by the API server's clock: before the caches are thrown away, after which
	// nothing shows it.
	OnRestore func(why string, at time.Time)
	// OnRebuild is called with what was wrong with caches that are thrown away.
	OnRebuild func(why string)
}

// Full is the cluster as a source that reads by quorum and compares the caches of a Source
// with what it read.
type Full struct {
	config FullConfig
	caches *Source
}

// NewFull returns the Full that verifies the caches of a Source.
func NewFull(caches *Source, config FullConfig) *Full {
	config.Settle = cmp.Or(config.Settle, 2*time.Second)
	return &Full{config: config, caches: caches}
}

// List reads everything by quorum. Then the caches are compared: what differs at once may
// be on its way, so after a pause everything is read again, and what a cache holds
// unchanged although both reads say otherwise is an object that it has lost or that is
// gone.
func (f *Full) List(ctx context.Context) (*judge.Observation, error) {
	for {
		pass, end := context.WithCancel(ctx)
		f.caches.fullPassBegins(end)
		o, err := f.listAndVerify(pass)
		restarted := pass.Err() != nil && ctx.Err() == nil
		end()
		if err == nil || !restarted {
			return o, err
		}
	}
}

// Relist reads again, by quorum, all but pods and reservations.
func (f *Full) Relist(ctx context.Context, o *judge.Observation) (*judge.Observation, error) {
	return f.caches.Relist(ctx, o)
}

// GetLive reads again, by quorum, what is named.
func (f *Full) GetLive(ctx context.Context, o *judge.Observation, what reconciler.LiveKeys) (*judge.Live, error) {
	return f.caches.GetLive(ctx, o, what)
}

func (f *Full) listAndVerify(ctx context.Context) (*judge.Observation, error) {
	session := f.caches.session()
	if session == nil {
		o, err := f.caches.cluster.List(ctx)
		if err != nil {
			return nil, err
		}
		f.remember(o)
		f.reportRestore(o, "", nil)
		return o, nil
	}
	c, err := f.compare(ctx, session)
	if err != nil {
		return nil, err
	}
	f.remember(c.observed)
	restored, err := f.caches.backwards(ctx, session)
	f.reportRestore(c.observed, restored, c.differences)
	switch {
	case c.observed.Restored != "":
		f.rebuild(c.observed.Restored)
	case f.kindsChanged(ctx, session):
		f.caches.Rebuild("what may be watched has changed")
	case err != nil: // not known to agree
	case len(c.differences) > 0 && (c.reopened || session.watches.closedWatch(session.kinds) != nil):
		// A watch that was closed meanwhile tells later what it has missed.
	case len(c.differences) > 0:
		f.rebuild(describe(c.differences))
	default:
		session.setVerified(c.opens)
		session.watches.clearFailure(c.failures)
	}
	return c.observed, nil
}

// comparison is what came of comparing the caches with a quorum read.
type comparison struct {
	observed    *judge.Observation
	differences map[string]difference
	// failures and opens are the watches' counts before what was read.
	failures, opens int
	reopened        bool // a watch was opened since the first read began
}

// compare reads everything, and again after a pause where the caches differ.
func (f *Full) compare(ctx context.Context, session *cacheSession) (c comparison, err error) {
	c.failures, c.opens = session.watches.counts()
	if c.observed, err = f.caches.cluster.List(ctx); err != nil {
		return c, err
	}
	if c.differences = session.view.differences(c.observed, session.kinds); len(c.differences) == 0 {
		return c, nil
	}
	select {
	case <-ctx.Done():
		return c, ctx.Err()
	case <-time.After(f.config.Settle):
	}
	first := c.opens
	c.failures, c.opens = session.watches.counts()
	if c.observed, err = f.caches.cluster.List(ctx); err != nil {
		return c, err
	}
	_, now := session.watches.counts()
	c.reopened = now != first
	c.differences = persisting(c.differences, session.view.differences(c.observed, session.kinds))
	return c, nil
}

// reportRestore puts into an observation what showed that etcd was restored since the one
// before: what a cache pass or the caches themselves saw, or an object that they hold at a
// newer resourceVersion than was read after them.
func (f *Full) reportRestore(o *judge.Observation, why string, differences map[string]difference) {
	unreported, intact := f.caches.takeRestore()
	why, o.Intact = cmp.Or(unreported, why), intact
	for _, key := range slices.Sorted(maps.Keys(differences)) {
		if d := differences[key]; why == "" && kube.Older(d.listed, d.cached) {
			why = fmt.Sprintf("%s is at resourceVersion %s after %s", key, d.listed, d.cached)
		}
	}
	if o.Restored = why; why != "" && f.config.OnRestore != nil {
		f.config.OnRestore(why, o.Now)
	}
}

// rebuild throws caches away that cannot be relied upon.
func (f *Full) rebuild(why string) {
	f.caches.Rebuild(why)
	if f.config.OnRebuild != nil {
		f.config.OnRebuild(why)
	}
}

// remember keeps for cache passes what the watches do not tell.
func (f *Full) remember(o *judge.Observation) {
	f.caches.reports.setMissed(o)
	f.caches.setLast(&judge.Observation{Warnings: o.Warnings, ReportsUnreadable: o.ReportsUnreadable, Paused: o.Paused, Acknowledged: o.Acknowledged})
}

// kindsChanged reports whether a kind is served or allowed that was not, or the
// other way round. An error says neither.
func (f *Full) kindsChanged(ctx context.Context, session *cacheSession) bool {
	names := func(kinds []kind) (all []string) {
		for _, k := range kinds {
			all = append(all, k.resource.Resource)
		}
		return all
	}
	now, err := f.caches.watchable(ctx)
	return err == nil && !slices.Equal(names(now), names(session.kinds))
}
