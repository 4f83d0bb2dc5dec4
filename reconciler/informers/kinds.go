package informers

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// kind is one kind of object that is watched.
type kind struct {
	resource schema.GroupVersionResource
	object   runtime.Object
	// namespace and name, where set, are all that is watched.
	namespace, name string
	// required: without it nothing is watched at all.
	required bool
	// parse takes from an object what the rules read; nothing else is kept.
	parse func(runtime.Object) any
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

// kinds are all that an observation needs; own is the reconciler's namespace, leases that of
// the agents' Leases.
func kinds(own, leases string) []kind {
	return []kind{
		{resource: ippool.PoolResource, object: custom(ippool.PoolResource, "IPPool"), required: true,
			parse: func(o runtime.Object) any { return ippool.ReadPool(slim(o)) }},
		{resource: ippool.ReservationResource, object: custom(ippool.ReservationResource, "OverlappingRangeIPReservation"),
			parse: func(o runtime.Object) any { return ippool.ReadReservation(slim(o)) }},
		{resource: ippool.NADResource, object: custom(ippool.NADResource, "NetworkAttachmentDefinition"),
			parse: func(o runtime.Object) any { return ippool.ReadNAD(o.(*unstructured.Unstructured)) }},
		{resource: core("pods"), object: &corev1.Pod{}, required: true,
			parse: func(o runtime.Object) any { return podstate.ReadPod(o.(*corev1.Pod)) }},
		{resource: core("nodes"), object: &corev1.Node{},
			parse: func(o runtime.Object) any { return podstate.ReadNode(o.(*corev1.Node)) }},
		{resource: v1alpha1.Resource(), object: custom(v1alpha1.Resource(), "SandboxReport"),
			parse: func(o runtime.Object) any { return parseReport(o.(*unstructured.Unstructured)) }},
		{resource: coordinationv1.SchemeGroupVersion.WithResource(leaseResource), object: &coordinationv1.Lease{},
			namespace: leases,
			parse:     func(o runtime.Object) any { return slimLease(o.(*coordinationv1.Lease)) }},
		{resource: core("namespaces"), object: &corev1.Namespace{}, name: own,
			parse: func(o runtime.Object) any { return readNamespaceSettings(o.(*corev1.Namespace).Annotations) }},
	}
}

// requests lists and watches a kind.
func (k kind) requests(core kubernetes.Interface, custom dynamic.Interface) *toolscache.ListWatch {
	only := func(opts *metav1.ListOptions) {
		if k.name != "" {
			opts.FieldSelector = "metadata.name=" + k.name
		}
	}
	typed := func(c toolscache.Getter) *toolscache.ListWatch {
		return toolscache.NewFilteredListWatchFromClient(c, k.resource.Resource, k.namespace, only)
	}
	switch k.resource.Group {
	case corev1.GroupName:
		return typed(core.CoreV1().RESTClient())
	case coordinationv1.GroupName:
		return typed(core.CoordinationV1().RESTClient())
	}
	objects := custom.Resource(k.resource)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, opts)
		},
		WatchFuncWithContext: objects.Watch,
	}
}

// slim drops what nobody reads and is larger than the rest.
func slim(o runtime.Object) *unstructured.Unstructured {
	u := o.(*unstructured.Unstructured)
	u.SetManagedFields(nil)
	return u
}

// namespaceSettings are what an operator sets by annotations of the reconciler's own namespace.
type namespaceSettings struct {
	paused       bool
	acknowledged time.Time
}

func readNamespaceSettings(annotations map[string]string) namespaceSettings {
	return namespaceSettings{ippool.Pauses(annotations), judge.Acknowledged(annotations)}
}

// report is a SandboxReport with its hash, or why it cannot be read.
type report struct {
	*v1alpha1.SandboxReport
	hash string
	err  error

	previous      *report // the one before it, where the agent's Lease had the hash of that as this one came
	previousSince time.Time
}

func parseReport(u *unstructured.Unstructured) *report {
	r := &report{SandboxReport: &v1alpha1.SandboxReport{}}
	if r.err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r.SandboxReport); r.err == nil {
		r.hash = podstate.Hash(r.SandboxReport)
	}
	return r
}

// slimLease keeps of an agent's Lease what podstate.ReadReport reads.
func slimLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	slim := &coordinationv1.Lease{}
	slim.Name, slim.Namespace, slim.ManagedFields = l.Name, l.Namespace, l.ManagedFields
	for _, a := range []string{v1alpha1.HashAnnotation, v1alpha1.RestoreAnnotation} {
		if text, there := l.Annotations[a]; there {
			if slim.Annotations == nil {
				slim.Annotations = map[string]string{}
			}
			slim.Annotations[a] = text
		}
	}
	return slim
}
