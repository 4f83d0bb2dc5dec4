package informers

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// kind is one kind of object that is watched.
type kind struct {
	resource schema.GroupVersionResource
	object   client.Object
	// where restricts the watch: to a namespace, to an object.
	where fields.Set
	// required: without it nothing is watched at all.
	required bool
	// parse takes from an object what the rules read; nothing else is kept.
	parse func(client.Object) any
}

// is reports whether two kinds are the same.
func (k kind) is(other kind) bool { return k.resource == other.resource }

func core(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

func custom(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(r.GroupVersion().WithKind(name))
	return u
}

// kinds are all that an observation needs; own is the reconciler's namespace, leases that of
// the agents' Leases.
func kinds(own, leases string) []kind {
	return []kind{
		{resource: ippool.PoolResource, object: custom(ippool.PoolResource, "IPPool"), required: true,
			parse: func(o client.Object) any { return ippool.ReadPool(slim(o)) }},
		{resource: ippool.ReservationResource, object: custom(ippool.ReservationResource, "OverlappingRangeIPReservation"),
			parse: func(o client.Object) any { return ippool.ReadReservation(slim(o)) }},
		{resource: ippool.NADResource, object: custom(ippool.NADResource, "NetworkAttachmentDefinition"),
			parse: func(o client.Object) any { return ippool.ReadNAD(o.(*unstructured.Unstructured)) }},
		{resource: core("pods"), object: &corev1.Pod{}, required: true,
			parse: func(o client.Object) any { return podstate.ReadPod(o.(*corev1.Pod)) }},
		{resource: core("nodes"), object: &corev1.Node{},
			parse: func(o client.Object) any { return podstate.ReadNode(o.(*corev1.Node)) }},
		{resource: v1alpha1.Resource(), object: custom(v1alpha1.Resource(), "SandboxReport"),
			parse: func(o client.Object) any { return parseReport(o.(*unstructured.Unstructured)) }},
		{resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), object: &coordinationv1.Lease{},
			where: fields.Set{"metadata.namespace": leases},
			parse: func(o client.Object) any { return slimLease(o.(*coordinationv1.Lease)) }},
		{resource: core("namespaces"), object: &corev1.Namespace{},
			where: fields.Set{"metadata.name": own},
			parse: func(o client.Object) any { return readNamespaceSettings(o.GetAnnotations()) }},
	}
}

// slim drops what nobody reads and is larger than the rest.
func slim(o client.Object) *unstructured.Unstructured {
	o.SetManagedFields(nil)
	return o.(*unstructured.Unstructured)
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

// mapper knows the kinds without discovery, which would fail as a whole where one API
// group is broken.
func mapper(kinds []kind, scheme *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds {
		gvks, _, err := scheme.ObjectKinds(k.object)
		if err != nil {
			gvks = []schema.GroupVersionKind{k.object.GetObjectKind().GroupVersionKind()}
		}
		scope := meta.RESTScopeNamespace
		switch k.resource.Resource {
		case "nodes", "namespaces", v1alpha1.Resource().Resource:
			scope = meta.RESTScopeRoot
		}
		m.AddSpecific(gvks[0], k.resource, k.resource, scope)
	}
	return m
}
