package informers

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	isListed bool   // it has the objects of a LIST, and no later LIST was refused
	noList   error  // the 403, 404 or 405 of the last LIST; nil if that succeeded, or a watch was opened since
	noWatch  error  // the 403, 404 or 405 of the last watch; nil if a watch was opened since
	isBack   bool   // it was listed again after a refusal, and no watch was opened since
	isRead   bool   // the last full pass read objects of the kind
	isWarned bool   // of its being polled
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

// itemOf returns what is kept of an object; it may be an item already.
func (k kind) itemOf(o any) *item {
	if i, isItem := o.(*item); isItem {
		return i
	}
	object := o.(metav1.Object)
	return &item{nameOf(object), object.GetUID(), object.GetResourceVersion(), k.parse(o.(runtime.Object))}
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Transformer makes a Reflector transform objects as they arrive.
func (s *store) Transformer() toolscache.TransformFunc {
	return func(o any) (any, error) { return s.itemOf(o), nil }
}

// Add stores a new or changed object.
func (s *store) Add(o any) error {
	i := s.itemOf(o)
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.set(i.NamespacedName, i.ResourceVersion, i)
	return nil
}

// Update stores a changed object.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete removes an object.
func (s *store) Delete(o any) error {
	object := o.(metav1.Object)
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.set(nameOf(object), object.GetResourceVersion(), nil)
	return nil
}

// Replace stores the objects of a list, and removes all others.
func (s *store) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]bool, len(list))
	items := make([]*item, len(list))
	for n, o := range list {
		items[n] = s.itemOf(o)
		list[n] = nil // the object may be large
		listed[items[n].NamespacedName] = true
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	for name := range s.objects {
		if !listed[name] {
			s.set(name, "", nil)
		}
	}
	for _, i := range items { // in their order, so that every process names the same object as evidence of a restore
		s.set(i.NamespacedName, i.ResourceVersion, i)
	}
	s.isListed = true
	s.warnIfPolled()
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

// itemList is a LIST as a Reflector reads it. Its items are in memory, and not the objects.
type itemList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject makes an itemList an object. Nothing copies one.
func (l *itemList) DeepCopyObject() runtime.Object { return l }

// DeepCopyObject makes an item an object. Nothing copies one.
func (i *item) DeepCopyObject() runtime.Object { return i }

// GetObjectKind returns no kind.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
