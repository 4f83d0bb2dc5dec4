// Package informers observes the cluster through watch caches, so that the reconciler reacts to events at once.
//
// A Source keeps one store per kind, which a Reflector fills. A change in a store requests a pass. List returns the
// content of the stores for the first observation of a pass only: Relist and GetLive, which every release needs, read
// by quorum. The stores are verified while every watch is open, if they agreed with a quorum read after the last failed
// request. Full makes that read, and rebuilds stores that differ.
//
// Read source.go first, then full.go. restore.go detects restores of etcd, store.go keeps the objects of one kind,
// observe.go makes an observation of them.
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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// ErrCacheUnverified means that only a full pass can observe the cluster now.
var ErrCacheUnverified = errors.New("the watch caches are not verified")

// ErrPolled means that this lasts until a right is granted: a kind that may be listed cannot be watched.
var ErrPolled = errors.New("the API server refuses the watch, so only full passes read")

var errNeverVerified = errors.New("no full pass has compared them yet")

// Source observes the cluster by watches while its Run runs. The callbacks are set before Run, and must not block.
type Source struct {
	// OnRestore receives the evidence that etcd was restored, which the caches then lose.
	OnRestore func(why string)
	OnRebuild func(why string) // receives the reason for a rebuild of the caches
	// RestoreIDs is restore.State.IDs.
	RestoreIDs func(n int) string

	*kube.Cluster // reads the API by quorum
	config        *rest.Config
	log           *slog.Logger
	onChange      func(resource string)
	rebuild       chan string
	settleTimeout time.Duration // how long caches may take to catch up with a quorum read

	mu         sync.Mutex
	stores     []*store
	isSynced   bool                 // each kind is listed, or is optional and cannot be listed
	unverified error                // why a quorum read must verify the caches; nil if they are verified
	failures   int                  // number of calls of invalidate
	opens      int                  // number of watches that were opened
	checked    int                  // value of opens at the last comparison of revisions
	changes    map[objectKey]bool   // the objects that changed during a comparison; nil without one
	missing    map[string]time.Time // by node, when the watches delivered the deletion of its report
	lastFull   *facts.Observation   // of the last full pass; it supplies what is not watched

	restore        string             // the evidence that etcd was restored, until the next full pass reports it
	restoreTime    time.Time          // by the API server's clock
	sharedID       string             // the ID by which the recorded restore was shared; "" for none yet
	cancelFullPass context.CancelFunc // of the current or last quorum read; nil before the first
}

// objectKey names an object of any kind.
type objectKey struct {
	resource string
	types.NamespacedName
}

func (k objectKey) String() string { return k.resource + " " + k.NamespacedName.String() }

// New returns a Source. onChange receives a resource whose change may change a verdict, and must not call the Source.
func New(cluster *kube.Cluster, config *rest.Config, log *slog.Logger, onChange func(resource string)) *Source {
	s := &Source{Cluster: cluster, config: cluster.RecordDates(config), log: log, onChange: onChange,
		rebuild: make(chan string, 1), OnRestore: func(string) {}, OnRebuild: func(string) {},
		settleTimeout: 2 * time.Second, lastFull: &facts.Observation{}, missing: map[string]time.Time{}}
	for _, k := range kinds(cluster.Namespace, cluster.LeaseNamespace) {
		s.stores = append(s.stores, &store{kind: k, source: s})
	}
	s.reset()
	cluster.Intern = s.intern
	return s
}

const minRebuildInterval = 5 * time.Second // between two rebuilds of the caches

// Run maintains the caches until the context ends.
func (s *Source) Run(ctx context.Context) {
	typed := rest.CopyConfig(s.config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := kubernetes.NewForConfig(typed)
	custom, customErr := dynamic.NewForConfig(s.config)
	if err := errors.Join(err, customErr); err != nil {
		s.log.Error("Cannot create the clients of the watch caches", "error", err)
		return
	}
	quiet := klog.NewContext(ctx, logr.Discard()) // the stores handle what a Reflector logs
	for ctx.Err() == nil {
		start := time.Now()
		s.watch(quiet, core, custom)
		s.mu.Lock()
		s.reset()
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(start.Add(minRebuildInterval))):
		}
	}
}

// watch fills the stores until a rebuild is requested.
func (s *Source) watch(ctx context.Context, core kubernetes.Interface, custom dynamic.Interface) {
	ctx, stop := context.WithCancel(ctx)
	var reflectors sync.WaitGroup
	defer reflectors.Wait()
	defer stop()
	select {
	case <-s.rebuild: // the stores are empty already
	default:
	}
	logger := logr.Discard()
	for _, k := range s.stores {
		options := toolscache.ReflectorOptions{Logger: &logger}
		reflector := toolscache.NewReflectorWithOptions(k.listWatch(core, custom), k.object, k, options)
		reflectors.Go(func() { reflector.RunWithContext(ctx) })
	}
	reflectors.Go(func() { s.watchRestores(ctx) })
	select {
	case <-ctx.Done():
	case why := <-s.rebuild:
		s.log.Info("Rebuilding the watch caches", "reason", why)
	}
}

// reset empties the stores. All reports count as missing, since no event will show a deletion. The caller holds mu.
func (s *Source) reset() {
	for name := range s.store(reportResource).objects {
		s.missing[name.Name] = s.Now()
	}
	for _, k := range s.stores {
		k.objects, k.newest, k.isListed = map[types.NamespacedName]*item{}, 0, false
		k.noList, k.noWatch, k.isBack = nil, nil, false
	}
	s.isSynced = false
	s.invalidate(errNeverVerified)
}

func (s *Source) store(resource string) *store {
	return s.stores[slices.IndexFunc(s.stores, func(k *store) bool { return k.resource.Resource == resource })]
}

// invalidate makes the caches unverified. The caller holds mu.
func (s *Source) invalidate(why error) {
	s.unverified = why
	s.failures++
}

// updateSync sets isSynced after a kind was listed, or was found to be unavailable. The caller holds mu.
func (s *Source) updateSync() {
	was := s.isSynced
	s.isSynced = !slices.ContainsFunc(s.stores, func(k *store) bool {
		return !k.isListed && k.noList == nil || k.isRefused() && k.isRequired
	})
	if s.isSynced && !was {
		watched := slices.DeleteFunc(slices.Clone(s.stores), (*store).isRefused)
		s.log.Info("Watch caches are synced", "kinds", len(watched))
		s.onChange("all")
	}
}

// Synced reports whether the caches have listed everything.
func (s *Source) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSynced
}

// Rebuild requests that the caches are emptied and filled again.
func (s *Source) Rebuild(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invalidate(errors.New(why))
	s.requestRebuild(why)
}

func (s *Source) requestRebuild(why string) {
	select {
	case s.rebuild <- why:
	default:
	}
}

// List returns the content of the caches. The error is ErrCacheUnverified if they may differ from the API server.
func (s *Source) List(ctx context.Context) (*facts.Observation, error) {
	if err := s.verify(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCacheUnverified, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observe(), nil
}

// Relist is that of the Cluster. The next observation of the caches has what it found of machines.
func (s *Source) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	o, err := s.Cluster.Relist(ctx, before)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noteMachines(o)
	}
	return o, err
}

// verify returns why the caches are not verified, nil if they are.
func (s *Source) verify(ctx context.Context) error {
	s.mu.Lock()
	err := s.problem()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.checkWatches(ctx)
}

// problem returns why the caches may be out of date, nil if they are current. The caller holds mu.
func (s *Source) problem() error {
	if !s.isSynced {
		return errors.New("they are not synced")
	}
	for _, k := range s.stores {
		switch {
		case k.isPolled():
			return fmt.Errorf("%w %s", ErrPolled, k.resource.GroupResource())
		case k.isClosed():
			return fmt.Errorf("the watch of %s is closed", k.resource.Resource)
		}
	}
	return s.unverified
}
