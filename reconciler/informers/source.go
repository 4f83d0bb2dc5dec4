// Package informers is the API as a source of observations that watches keep up to date,
// so that the reconciler acts at once on what an event proves.
//
// A Source keeps caches by watches, one session after the other. An event in them makes a
// pass due, and List is what they hold, for a first observation only: Relist and GetLive,
// which every release needs, read by quorum. The caches are reliable while every watch is
// open, and since they agreed with a quorum read after the last request of theirs that
// failed. Full makes that read. Caches that do not agree are rebuilt.
//
// Read source.go first, then verify.go; view.go is what the caches hold, watches.go knows
// which watches are open, restore.go detects restores of etcd.
package informers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// ErrCacheUnverified: the caches cannot be relied upon now; a full pass can.
var ErrCacheUnverified = errors.New("the caches cannot be relied upon")

// Source observes by watches. Its Run must be running. The callbacks are set before Run,
// may be nil, and must not block.
type Source struct {
	// OnRestore is called with what shows in an observation that etcd was restored, and
	// when by the API server's clock: before the caches are thrown away, after which
	// nothing shows it.
	OnRestore func(why string, at time.Time)
	// OnRebuild is called with what was wrong with caches that are thrown away.
	OnRebuild func(why string)

	cluster *kube.Cluster
	config  *rest.Config
	log     *slog.Logger
	changed func(what string)
	rebuild chan string
	reports *knownReports
	// settleFor is how long caches may take to catch up with a quorum read.
	settleFor time.Duration

	mu      sync.Mutex
	current *session           // nil before the first has listed everything, and between two
	last    *judge.Observation // by the last full pass; what is not watched comes from there
	// restored is what showed that etcd was restored, until the next full pass reports it.
	restored         string
	restoreNoticedAt time.Time          // by the API server's clock
	cancelFullPass   context.CancelFunc // of the quorum read that is under way, or was last; nil before the first
}

// New returns a Source; changed is called when something changed that may change
// a verdict, with what it was: the name of a resource. It must not block.
func New(cluster *kube.Cluster, config *rest.Config, log *slog.Logger, changed func(what string)) *Source {
	return &Source{cluster: cluster, config: config, log: log, changed: changed, rebuild: make(chan string, 1), reports: newKnownReports(),
		settleFor: 2 * time.Second, last: &judge.Observation{}}
}

// session is one set of caches, from their first list to their end.
type session struct {
	kinds   []kind
	view    *view
	watches *watchTracker
}

const (
	// retryAfter is how long after one set of caches was begun the next may be.
	retryAfter = 5 * time.Second
	// kindsEvery is how often kinds that cannot be watched are tried again.
	kindsEvery = time.Minute
	// syncTimeout is how long caches may take until they have listed all.
	syncTimeout = 5 * time.Minute
)

// Run keeps caches until the context ends. What cannot be watched is logged, and
// tried again.
func (s *Source) Run(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		began := time.Now()
		err := s.runSession(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != logged {
			s.log.Warn("the cluster cannot be watched: until it can, only the schedule starts passes", "error", err)
			logged = err.Error()
		}
		if err == nil {
			logged = ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(retryAfter))):
		}
	}
}

// runSession builds one session and ends it when a rebuild is requested.
func (s *Source) runSession(ctx context.Context) error {
	kinds, err := s.watchable(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	current := &session{kinds: kinds}
	changed := func(what string) {
		if s.session() == current {
			s.changed(what)
		}
	}
	current.view = newView(s.cluster.LeaseNamespace, s.Now, changed, s.reports)
	current.watches = newWatchTracker(func() { changed("a watch") })
	select {
	case <-s.rebuild: // these caches are what it asked for
	default:
	}
	ended, err := s.start(ctx, current)
	if err != nil {
		return err
	}
	s.setSession(current)
	defer s.setSession(nil)
	s.log.Info("the cluster is watched", "kinds", len(kinds))
	s.changed("all")
	asking := time.NewTicker(kindsEvery)
	defer asking.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case why := <-s.rebuild:
			s.log.Info("the caches are rebuilt", "why", why)
			return nil
		case <-asking.C:
			if len(kinds) < len(s.kinds()) && s.kindsChanged(ctx, current) {
				s.Rebuild("what may be watched has changed")
			}
		}
	}
}

// start starts the caches and waits until they have listed all.
func (s *Source) start(ctx context.Context, current *session) (ended <-chan error, err error) {
	config := rest.CopyConfig(s.config)
	current.watches.wrap(config)
	by := map[client.Object]cache.ByObject{}
	for _, k := range current.kinds {
		b := cache.ByObject{Transform: k.transform}
		if k.where != nil {
			b.Field = k.where.AsSelector()
		}
		by[k.object] = b
	}
	c, err := cache.New(config, cache.Options{
		Scheme: scheme.Scheme, Mapper: mapper(current.kinds, scheme.Scheme), ByObject: by,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			s.log.Debug("a watch has failed", "error", err) // again and again; the tracker knows
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the caches: %w", err)
	}
	var synced []toolscache.InformerSynced
	for _, k := range current.kinds {
		informer, err := c.GetInformer(ctx, k.object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("set up the cache of %s: %w", k.resource.Resource, err)
		}
		registration, err := informer.AddEventHandler(current.view.handler(k.resource.Resource))
		if err != nil {
			return nil, fmt.Errorf("set up the cache of %s: %w", k.resource.Resource, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	waiting, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(waiting.Done(), synced...) {
		return nil, errors.Join(fmt.Errorf("the caches did not list everything within %s", syncTimeout), current.watches.reliable(current.kinds))
	}
	return done, nil
}

// kinds are all that an observation needs.
func (s *Source) kinds() []kind { return kinds(s.cluster.Namespace, s.cluster.LeaseNamespace) }

// watchable are the kinds that are served and may be watched.
func (s *Source) watchable(ctx context.Context) ([]kind, error) {
	var found []kind
	for _, k := range s.kinds() {
		why, err := s.cluster.MayWatch(ctx, k.resource, k.where["metadata.namespace"], k.where["metadata.name"])
		switch {
		case err != nil:
			return nil, err
		case why == "":
			found = append(found, k)
		case k.required:
			return nil, errors.New(why)
		default:
			s.log.Debug("not watched", "resource", k.resource.Resource, "why", why)
		}
	}
	return found, nil
}

// kindsChanged reports whether a kind is served or allowed that was not, or the
// other way round. An error says neither.
func (s *Source) kindsChanged(ctx context.Context, current *session) bool {
	now, err := s.watchable(ctx)
	return err == nil && !slices.EqualFunc(now, current.kinds, kind.is)
}

func (s *Source) setSession(current *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
}

func (s *Source) session() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Synced reports whether there are caches that have listed everything.
func (s *Source) Synced() bool { return s.session() != nil }

// Rebuild throws the caches away and builds new ones.
func (s *Source) Rebuild(why string) {
	if current := s.session(); current != nil {
		current.watches.invalidate()
	}
	select {
	case s.rebuild <- why:
	default:
	}
}

// Relist reads again, by quorum, all but pods and reservations.
func (s *Source) Relist(ctx context.Context, o *judge.Observation) (*judge.Observation, error) {
	return s.cluster.Relist(ctx, o)
}

// GetLive reads again, by quorum, what is named.
func (s *Source) GetLive(ctx context.Context, o *judge.Observation, what reconciler.LiveKeys) (*judge.Live, error) {
	return s.cluster.GetLive(ctx, o, what)
}
