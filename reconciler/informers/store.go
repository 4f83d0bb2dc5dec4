package informers

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// store is the TransformingStore of a Reflector. The Source's mu guards all fields except kind.
type store struct {
	kind
	source   *Source
	objects  map[types.NamespacedName]*item
	newest   uint64 // the newest resourceVersion
	watches  int    // number of open watches
	isListed bool
	refusal  error // a 403 or 404 since the last watch was opened
}

type item struct {
	types.NamespacedName
	UID             types.UID
	ResourceVersion string
	parsed          any
}

// GetObjectMeta returns what a Reflector reads. An ObjectMeta in each item would be larger than all else.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion}
}

func (k kind) transform(o any) (any, error) {
	if _, isItem := o.(*item); isItem {
		return o, nil
	}
	object, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	return &item{nameOf(object), object.GetUID(), object.GetResourceVersion(), k.parse(o.(runtime.Object))}, nil
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Transformer makes a Reflector transform objects as they arrive.
func (s *store) Transformer() toolscache.TransformFunc { return s.transform }

// Add stores a new or changed object.
func (s *store) Add(o any) error {
	transformed, err := s.transform(o)
	if err != nil {
		return err
	}
	i := transformed.(*item)
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.set(i.NamespacedName, i.ResourceVersion, i)
	return nil
}

// Update stores a changed object.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete removes an object.
func (s *store) Delete(o any) error {
	object, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.set(nameOf(object), object.GetResourceVersion(), nil)
	return nil
}

// Replace stores the objects of a list, and removes all others.
func (s *store) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]*item, len(list))
	for n, o := range list {
		transformed, err := s.transform(o)
		if err != nil {
			return err
		}
		list[n] = nil // the object may be large
		listed[transformed.(*item).NamespacedName] = transformed.(*item)
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	for name := range s.objects {
		if listed[name] == nil {
			s.set(name, "", nil)
		}
	}
	for name, i := range listed {
		s.set(name, i.ResourceVersion, i)
	}
	s.isListed = true
	s.source.updateSync()
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }

// set replaces an object by its new state, nil if it was deleted. The caller holds mu.
func (s *store) set(name types.NamespacedName, version string, after *item) {
	before := s.objects[name]
	if after != nil {
		s.objects[name] = after
	} else {
		delete(s.objects, name)
	}
	if number, err := strconv.ParseUint(version, 10, 64); err == nil {
		s.newest = max(s.newest, number)
	}
	key := objectKey{s.resource.Resource, name}
	if s.source.changes != nil {
		s.source.changes[key] = true
	}
	if s.resource.Resource == reportResource {
		s.source.trackReport(before, after, name.Name)
	}
	if before != nil && after != nil && before.UID == after.UID && kube.Older(version, before.ResourceVersion) {
		s.source.setRestore(fmt.Sprintf("%s is at resourceVersion %s after %s", key, version, before.ResourceVersion))
	}
	if s.source.isSynced && s.source.affectsVerdict(before, after) {
		s.source.onChange(s.resource.Resource)
	}
}

// listWatch returns the requests of a Reflector, which update the state of the store.
func (s *store) listWatch(core kubernetes.Interface, custom dynamic.Interface) *toolscache.ListWatch {
	requests := s.requests(core, custom)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := requests.ListWithContext(ctx, opts)
			s.handleResult(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := requests.WatchWithContext(ctx, opts)
			s.handleResult(ctx, err)
			if err != nil {
				return nil, err
			}
			s.addWatch()
			return countedWatch{w, sync.OnceFunc(s.removeWatch)}, nil
		},
	}
}

// countedWatch is an open watch. A Reflector stops it when its stream has ended.
type countedWatch struct {
	watch.Interface
	onStop func()
}

func (w countedWatch) Stop() {
	w.onStop()
	w.Interface.Stop()
}

// handleResult makes the caches unverified after a failed request.
func (s *store) handleResult(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || // the Reflector lists everything again
		apierrors.IsTooManyRequests(err) { // the Reflector tries again; a full pass would be a larger load
		return
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		if s.refusal != nil {
			return
		}
		s.refusal, s.isListed = err, false
		if s.isRequired {
			s.source.log.Warn("Cannot watch a required resource, making full passes instead",
				"resource", s.resource.Resource, "error", err)
		}
		s.source.updateSync()
	}
	wasVerified := s.source.unverified == nil
	s.source.invalidate(fmt.Errorf("list or watch %s: %w", s.resource.Resource, err))
	if wasVerified {
		s.source.onChange("watch") // no event of the watch will request a pass
	}
}

func (s *store) addWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches++
	s.source.opens++
	if s.refusal != nil {
		s.source.log.Info("Started watching a resource that was forbidden or missing", "resource", s.resource.Resource)
		s.refusal = nil
		s.source.invalidate(errNeverVerified)
		s.source.updateSync()
	}
	s.source.onChange("watch")
}

// isClosed reports whether a kind is not watched although it may be. The caller holds mu.
func (s *store) isClosed() bool { return s.refusal == nil && s.watches == 0 }

func (s *store) removeWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches--
}
