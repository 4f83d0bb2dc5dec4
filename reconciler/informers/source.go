// Package informers is the API as a source of observations that watches keep up to date,
// so that the reconciler acts at once on what an event proves.
//
// A Source keeps a store of each kind by a Reflector. A change in them makes a pass due, and
// List is what they hold, for a first observation only: Relist and GetLive, which every
// release needs, read by quorum. The stores are reliable while every watch is open, and
// since they agreed with a quorum read after the last request of theirs that failed. Full
// makes that read. Stores that do not agree are emptied and filled again.
//
// Read source.go first, then full.go; store.go is what keeps the objects of one kind,
// observe.go makes an observation of them, restore.go detects restores of etcd.
package informers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// ErrCacheUnverified: the caches cannot be relied upon now; a full pass can.
var ErrCacheUnverified = errors.New("the caches cannot be relied upon")

var errNeverVerified = errors.New("they were not compared with a full pass yet")

// Source observes by watches. Its Run must be running. The callbacks are set before Run,
// may be nil, and must not block.
type Source struct {
	// OnRestore is called with what shows in an observation that etcd was restored, and
	// when by the API server's clock: before the caches are rebuilt, after which nothing
	// shows it.
	OnRestore func(why string, at time.Time)
	// OnRebuild is called with what was wrong with caches that are rebuilt.
	OnRebuild func(why string)

	// Cluster is the API itself, which reads by quorum.
	*kube.Cluster
	config  *rest.Config
	log     *slog.Logger
	changed func(what string)
	rebuild chan string
	// settleFor is how long caches may take to catch up with a quorum read.
	settleFor time.Duration

	mu     sync.Mutex
	stores []*store
	synced bool // each kind is listed, or is optional and cannot be watched
	// unverified is why the caches must be compared with a quorum read before they are relied upon; nil if they agreed.
	unverified error
	failures   int // how often unverified was set
	opens      int // how many watches were opened
	compared   int // opens when the revisions were compared last
	// changedSince are the objects that changed since a comparison began; nil while none is under way.
	changedSince map[objectKey]bool
	missed       map[string]time.Time // nodes whose report the watches have delivered, since when it is gone
	last         *judge.Observation   // by the last full pass; what is not watched comes from there
	// restored is what showed that etcd was restored, until the next full pass reports it.
	restored         string
	restoreNoticedAt time.Time          // by the API server's clock
	cancelFullPass   context.CancelFunc // of the quorum read that is under way, or was last; nil before the first
}

// objectKey names an object of any kind.
type objectKey struct {
	resource string
	types.NamespacedName
}

func (k objectKey) String() string { return k.resource + " " + k.NamespacedName.String() }

// New returns a Source; changed is called when something changed that may change a verdict, with what it was: the
// name of a resource. It must not block, and not call the Source.
func New(cluster *kube.Cluster, config *rest.Config, log *slog.Logger, changed func(what string)) *Source {
	s := &Source{Cluster: cluster, config: config, log: log, changed: changed, rebuild: make(chan string, 1),
		settleFor: 2 * time.Second, last: &judge.Observation{}, missed: map[string]time.Time{}}
	for _, k := range kinds(cluster.Namespace, cluster.LeaseNamespace) {
		s.stores = append(s.stores, &store{kind: k, source: s})
	}
	s.reset()
	return s
}

// rebuildEvery is how long after the caches were begun they are rebuilt at the earliest.
const rebuildEvery = 5 * time.Second

// retryPauses are those after a list or a watch that failed, as a Reflector by itself makes them.
var retryPauses = wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}

// Run keeps the caches until the context ends.
func (s *Source) Run(ctx context.Context) {
	typed := rest.CopyConfig(s.config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := kubernetes.NewForConfig(typed)
	custom, customErr := dynamic.NewForConfig(s.config)
	if err := errors.Join(err, customErr); err != nil {
		s.log.Error("the cluster cannot be watched", "error", err)
		return
	}
	quiet := klog.NewContext(ctx, logr.Discard()) // of what a Reflector logs the stores know
	for ctx.Err() == nil {
		began := time.Now()
		s.watch(quiet, core, custom)
		s.mu.Lock()
		s.reset()
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(rebuildEvery))):
		}
	}
}

// watch fills the stores until they are to be rebuilt.
func (s *Source) watch(ctx context.Context, core kubernetes.Interface, custom dynamic.Interface) {
	ctx, stop := context.WithCancel(ctx)
	var reflectors sync.WaitGroup
	defer reflectors.Wait()
	defer stop()
	select {
	case <-s.rebuild: // these caches are what it asked for
	default:
	}
	logger := logr.Discard()
	for _, k := range s.stores {
		options := toolscache.ReflectorOptions{Logger: &logger}
		reflector := toolscache.NewReflectorWithOptions(k.listWatch(core, custom), k.object, k, options)
		listAndWatch := func(ctx context.Context) (bool, error) {
			if err := reflector.ListAndWatchWithContext(ctx); err != nil {
				s.log.Debug("a watch has failed", "resource", k.resource.Resource, "error", err)
			}
			return false, nil
		}
		pauses := retryPauses.DelayWithReset(clock.RealClock{}, 2*time.Minute)
		reflectors.Go(func() { _ = pauses.Until(ctx, true, true, listAndWatch) })
	}
	select {
	case <-ctx.Done():
	case why := <-s.rebuild:
		s.log.Info("the caches are rebuilt", "why", why)
	}
}

// reset empties the stores. That a report goes does not show while they are filled again. The caller holds mu.
func (s *Source) reset() {
	for name := range s.store(reportResource).objects {
		s.missed[name.Name] = s.Now()
	}
	for _, k := range s.stores {
		k.objects, k.newest, k.isListed, k.refusal = map[types.NamespacedName]*item{}, 0, false, nil
	}
	s.synced = false
	s.invalidate(errNeverVerified)
}

func (s *Source) store(resource string) *store {
	return s.stores[slices.IndexFunc(s.stores, func(k *store) bool { return k.resource.Resource == resource })]
}

// invalidate has the caches count for nothing until they are verified again. The caller holds mu.
func (s *Source) invalidate(why error) {
	s.unverified = why
	s.failures++
}

// updateSynced takes in that a kind was listed, or cannot be watched. The caller holds mu.
func (s *Source) updateSynced() {
	was := s.synced
	s.synced = !slices.ContainsFunc(s.stores, func(k *store) bool {
		return k.refusal == nil && !k.isListed || k.refusal != nil && k.required
	})
	if s.synced && !was {
		watched := slices.DeleteFunc(slices.Clone(s.stores), func(k *store) bool { return k.refusal != nil })
		s.log.Info("the cluster is watched", "kinds", len(watched))
		s.changed("all")
	}
}

// Synced reports whether there are caches that have listed everything.
func (s *Source) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Rebuild throws the caches away and builds new ones.
func (s *Source) Rebuild(why string) {
	s.mu.Lock()
	s.invalidate(errors.New(why))
	s.mu.Unlock()
	select {
	case s.rebuild <- why:
	default:
	}
}

// List returns what the caches hold. The error is ErrCacheUnverified where
// that may differ from what the API server has.
func (s *Source) List(ctx context.Context) (*judge.Observation, error) {
	if err := s.verify(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCacheUnverified, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observe(), nil
}

// verify returns why the caches cannot be relied upon, nil if they can. A watch that is resumed at a revision that a
// restored etcd has not reached yet is open and delivers nothing: so the revisions are compared when one was opened.
func (s *Source) verify(ctx context.Context) error {
	s.mu.Lock()
	err, opens, isCompared := s.doubt(), s.opens, s.opens == s.compared
	s.mu.Unlock()
	if err != nil || isCompared {
		return err
	}
	why, err := s.backwards(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != "" {
		s.setRestored(why)
		return errors.New(why)
	}
	s.compared = opens
	return nil
}

// doubt returns why the caches may be out of date, nil if they are not. The caller holds mu.
func (s *Source) doubt() error {
	if !s.synced {
		return errors.New("they have not listed everything yet")
	}
	for _, k := range s.stores {
		if k.isClosed() {
			return fmt.Errorf("the watch of %s is not open", k.resource.Resource)
		}
	}
	return s.unverified
}
