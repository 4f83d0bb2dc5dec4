package informers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
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
	listed := make(map[types.NamespacedName]*item, len(list))
	for n, o := range list {
		i := s.itemOf(o)
		list[n] = nil // the object may be large
		listed[i.NamespacedName] = i
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

// list lists the kind by quorum and page by page, and decodes one object at a time. The LIST of a Reflector, with
// resourceVersion 0, would be read as a whole, since API servers ignore its limit.
func (s *store) list(ctx context.Context) (runtime.Object, error) {
	_, isCustom := s.object.(*unstructured.Unstructured)
	items, revision, err := kube.List(ctx, s.source.Cluster, s.resource, s.namespace, s.name, !isCustom, s.decodeList)
	l := &itemList{ListMeta: metav1.ListMeta{ResourceVersion: revision}}
	for _, i := range items {
		l.Items = append(l.Items, i)
	}
	return l, err
}

// listWatch returns the requests of a Reflector, which update the state of the store.
func (s *store) listWatch(core kubernetes.Interface, custom dynamic.Interface) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := s.list(ctx)
			s.handleResult(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := s.watch(ctx, core, custom, opts)
			s.handleResult(ctx, "watch", err)
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

// handleResult makes the caches unverified after a failed request. verb is list or watch.
func (s *store) handleResult(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	if err == nil {
		if verb == "list" && s.noList != nil {
			s.noList = nil
			s.source.invalidate(errNeverVerified)
		}
		return
	}
	s.source.log.Debug("Watch failed", "resource", s.resource.Resource, "error", err)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || // the Reflector lists everything again
		apierrors.IsTooManyRequests(err) { // the Reflector tries again; a full pass would be a larger load
		return
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		if verb == "list" {
			if s.noList != nil {
				return
			}
			s.noList, s.isListed, s.isRead, s.isWarned = err, false, false, false
		} else {
			if s.noWatch != nil {
				return
			}
			s.noWatch = err
			s.warnIfPolled()
		}
		s.source.updateSync()
	}
	wasVerified := s.source.unverified == nil
	s.source.invalidate(fmt.Errorf("list or watch %s: %w", s.resource.Resource, err))
	if wasVerified {
		s.source.onChange("watch") // no event of the watch will request a pass
	}
}

// isRefused reports whether the API server refused the last LIST or watch. The caller holds mu.
func (s *store) isRefused() bool { return s.noList != nil || s.noWatch != nil }

// isPolled reports whether only full passes read the kind: it may be listed, and not be watched. The caches lack it
// then, or have an old state. A kind that may not be listed is as unknown to a full pass as to the caches. The caller
// holds mu.
func (s *store) isPolled() bool {
	if s.noList != nil {
		return s.isRead
	}
	return s.noWatch != nil
}

// warnIfPolled warns once of a kind that is listed and cannot be watched. The caller holds mu.
func (s *store) warnIfPolled() {
	if s.noWatch != nil && s.isListed && !s.isWarned {
		s.isWarned = true
		s.source.log.Warn("Cannot watch a resource, making full passes instead; grant the verb watch",
			"resource", s.resource.Resource, "verb", "watch", "error", s.noWatch)
	}
}

func (s *store) addWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches++
	s.source.opens++
	if s.isRefused() {
		s.source.log.Info("Started watching a resource that was forbidden or missing", "resource", s.resource.Resource)
		s.noList, s.noWatch, s.isWarned = nil, nil, false
		s.source.invalidate(errNeverVerified)
		s.source.updateSync()
	}
	s.source.onChange("watch")
}

// isClosed reports whether a kind is not watched although it may be. The caller holds mu.
func (s *store) isClosed() bool { return !s.isRefused() && s.watches == 0 }

func (s *store) removeWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches--
}

type kind struct {
	resource        schema.GroupVersionResource
	object          runtime.Object
	namespace, name string                   // restrict the watch, if set
	isRequired      bool                     // the caches are useless without this kind
	parse           func(runtime.Object) any // returns what the rules read of an object
}

func core(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

func custom(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(r.GroupVersion().WithKind(name))
	return u
}

var reportResource, leaseResource = v1alpha1.Resource().Resource, "leases"

// kinds returns all kinds of an observation. own is the reconciler's namespace, leases that of the agents' Leases.
func kinds(own, leases string) []kind {
	return []kind{
		{resource: ippool.PoolResource, object: custom(ippool.PoolResource, "IPPool"), isRequired: true,
			parse: with(ippool.Read[ippool.Pool])},
		{resource: ippool.ReservationResource, parse: with(ippool.Read[ippool.Reservation]),
			object: custom(ippool.ReservationResource, "OverlappingRangeIPReservation")},
		{resource: ippool.NADResource, object: custom(ippool.NADResource, "NetworkAttachmentDefinition"),
			parse: with(ippool.Read[ippool.NAD])},
		{resource: core("pods"), object: &corev1.Pod{}, isRequired: true, parse: with(podstate.ReadPod)},
		{resource: core("nodes"), object: &corev1.Node{}, parse: with(podstate.ReadNode)},
		{resource: v1alpha1.Resource(), object: custom(v1alpha1.Resource(), "SandboxReport"), parse: with(parseReport)},
		{resource: coordinationv1.SchemeGroupVersion.WithResource(leaseResource), object: &coordinationv1.Lease{},
			namespace: leases, parse: with(slimLease)},
		{resource: core("namespaces"), object: &corev1.Namespace{}, name: own, parse: with(readNamespaceSettings)},
	}
}

func with[O runtime.Object, P any](parse func(O) P) func(runtime.Object) any {
	return func(o runtime.Object) any { return parse(o.(O)) }
}

// decodeList decodes a page of a LIST, and calls each with what is kept of every object.
func (k kind) decodeList(body []byte, each func(*item)) (metav1.ListMeta, error) {
	kind := cmp.Or(k.object.GetObjectKind().GroupVersionKind().Kind, reflect.TypeOf(k.object).Elem().Name())
	return lean.List(body, kind, func(text []byte, isJSON bool) error {
		o, err := k.object.DeepCopyObject().(metav1.Object), error(nil)
		switch into := o.(type) {
		case *unstructured.Unstructured:
			err = json.UnmarshalCaseSensitivePreserveInts(text, &into.Object)
		case interface{ Unmarshal([]byte) error }:
			if !isJSON {
				err = into.Unmarshal(text)
				break
			}
			err = json.UnmarshalCaseSensitivePreserveInts(text, into)
		}
		if err == nil && o.GetName() == "" {
			err = errors.New("an object without a name")
		}
		if err == nil {
			each(k.itemOf(o))
		}
		return err
	})
}

// watch opens a watch of the kind.
func (k kind) watch(
	ctx context.Context, core kubernetes.Interface, custom dynamic.Interface, opts metav1.ListOptions,
) (watch.Interface, error) {
	var client toolscache.Getter
	switch k.resource.Group {
	case corev1.GroupName:
		client = core.CoreV1().RESTClient()
	case coordinationv1.GroupName:
		client = core.CoordinationV1().RESTClient()
	default:
		return custom.Resource(k.resource).Watch(ctx, opts)
	}
	selector := fields.Everything()
	if k.name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, k.name)
	}
	requests := toolscache.NewListWatchFromClient(client, k.resource.Resource, k.namespace, selector)
	return requests.WatchWithContext(ctx, opts)
}

// namespaceSettings are the annotations of the reconciler's own namespace.
type namespaceSettings struct {
	isPaused     bool
	acknowledged string
}

func readNamespaceSettings(n *corev1.Namespace) namespaceSettings {
	return namespaceSettings{ippool.Pauses(n.Annotations), restore.Acknowledged(n.Annotations)}
}

// report is a SandboxReport with its hash, or the error of parsing it.
type report struct {
	*v1alpha1.SandboxReport
	hash string
	err  error

	previous      *report // the one before it, if the agent's Lease had its hash when this one arrived
	previousSince time.Time
}

func parseReport(u *unstructured.Unstructured) *report {
	r := &report{SandboxReport: &v1alpha1.SandboxReport{}}
	if r.err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r.SandboxReport); r.err == nil {
		r.hash = podstate.Hash(r.SandboxReport)
	}
	return r
}

// slimLease returns the parts of an agent's Lease that podstate.ReadReport reads.
func slimLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	slim := &coordinationv1.Lease{}
	slim.Name, slim.Namespace, slim.ResourceVersion = l.Name, l.Namespace, l.ResourceVersion
	slim.ManagedFields, slim.Annotations = l.ManagedFields, l.Annotations
	return slim
}
