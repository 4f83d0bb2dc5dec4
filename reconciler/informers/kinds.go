package informers

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

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
