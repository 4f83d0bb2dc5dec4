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

// store keeps the objects of one kind, and knows whether they are up to date. It is a
// TransformingStore of a Reflector. All but kind is guarded by the Source's mu.
type store struct {
	kind
	source   *Source
	objects  map[types.NamespacedName]*item
	newest   uint64 // the newest resourceVersion so far
	open     int    // watches that are open
	isListed bool
	refusal  error // a 403 or 404, until a watch is opened
}

// item is what a store keeps of an object.
type item struct {
	types.NamespacedName
	UID             types.UID
	ResourceVersion string
	parsed          any
}

// GetObjectMeta is for the Reflector, which asks for the name and the resourceVersion:
// an ObjectMeta in each of many thousand items would be larger than the rest.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion}
}

// transform replaces an object by what was parsed of it.
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

// Transformer has a Reflector transform objects as they arrive.
func (s *store) Transformer() toolscache.TransformFunc { return s.transform }

// Add takes in a new or changed object.
func (s *store) Add(o any) error {
	kept, err := s.transform(o)
	if err != nil {
		return err
	}
	i := kept.(*item)
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.set(i.NamespacedName, i.ResourceVersion, i)
	return nil
}

// Update takes in a changed object.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete takes in that an object is gone.
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

// Replace takes in a list.
func (s *store) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]*item, len(list))
	for n, o := range list {
		kept, err := s.transform(o)
		if err != nil {
			return err
		}
		list[n] = nil // the object may be large
		listed[kept.(*item).NamespacedName] = kept.(*item)
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
	s.source.updateSynced()
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }

// set puts what an object is now, at a version, in the place of what it was; nil is an object that is gone. The
// caller holds mu.
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
	if s.source.changedSince != nil {
		s.source.changedSince[objectKey{s.resource.Resource, name}] = true
	}
	if s.resource.Resource == reportResource {
		s.source.reportChanged(before, after, name.Name)
	}
	if before != nil && after != nil && before.UID == after.UID && kube.Older(version, before.ResourceVersion) {
		key := objectKey{s.resource.Resource, name}
		s.source.setRestored(fmt.Sprintf("%s is at resourceVersion %s after %s", key, version, before.ResourceVersion))
	}
	if s.source.synced && s.source.affectsVerdict(before, after) {
		s.source.changed(s.resource.Resource)
	}
}

// listWatch makes the requests of a Reflector.
func (s *store) listWatch(core kubernetes.Interface, custom dynamic.Interface) *toolscache.ListWatch {
	requests := s.requests(core, custom)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := requests.ListWithContext(ctx, opts)
			s.ended(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := requests.WatchWithContext(ctx, opts)
			s.ended(ctx, err)
			if err != nil {
				return nil, err
			}
			s.opened()
			return openWatch{w, sync.OnceFunc(s.closed)}, nil
		},
	}
}

// openWatch is a watch. A Reflector stops it when its stream has ended.
type openWatch struct {
	watch.Interface
	closed func()
}

func (w openWatch) Stop() {
	w.closed()
	w.Interface.Stop()
}

// ended takes in how a request ended.
func (s *store) ended(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil { // we ended it
		return
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || // the Reflector lists everything again
		apierrors.IsTooManyRequests(err) { // it is asked again, and a full pass would ask for much more
		return
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		if s.refusal != nil {
			return
		}
		s.refusal, s.isListed = err, false
		if s.required {
			s.source.log.Warn("the cluster cannot be watched: until it can, only the schedule starts passes", "error", err)
		}
		s.source.updateSynced()
	}
	first := s.source.unverified == nil
	s.source.invalidate(fmt.Errorf("a request of the caches has failed: %s: %w", s.resource.Resource, err))
	if first {
		s.source.changed("a watch") // else whoever waits for an event would wait in vain
	}
}

func (s *store) opened() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.open++
	s.source.opens++
	if s.refusal != nil {
		s.source.log.Info("a kind can be watched from now on", "resource", s.resource.Resource)
		s.refusal = nil
		s.source.invalidate(errNeverVerified)
		s.source.updateSynced()
	}
	s.source.changed("a watch")
}

// isClosed reports whether a kind that may be watched is not. The caller holds mu.
func (s *store) isClosed() bool { return s.refusal == nil && s.open == 0 }

func (s *store) closed() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.open--
}
