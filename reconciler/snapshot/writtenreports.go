package snapshot

import (
	"bytes"
	"encoding/json"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// report returns a SandboxReport as it is written, without the paths of network namespaces. In place of one that cannot
// be decoded it returns one of the same name that cannot be decoded either.
func (w *writer) report(text []byte) (any, error) {
	r := &v1alpha1.SandboxReport{}
	if decode(text, r) != nil {
		unread := fields{}
		if err := json.Unmarshal(text, &unread); err != nil {
			return nil, err
		}
		metadata := in(unread, "metadata")
		keepOnly(metadata, "name", "uid", "resourceVersion")
		w.set(metadata, "name", "node")
		return fields{"apiVersion": v1alpha1.Resource().GroupVersion().String(), "kind": "SandboxReport",
			"metadata": metadata, "sandboxes": "unreadable"}, nil
	}
	hash := podstate.Hash(r)
	r.APIVersion, r.Kind = v1alpha1.Resource().GroupVersion().String(), "SandboxReport"
	r.ObjectMeta = w.reducedMeta(&r.ObjectMeta, `"f:observedAt"`, v1alpha1.RestoreAnnotation)
	for i := range r.Sandboxes {
		s := &r.Sandboxes[i]
		s.Namespace, s.Name, s.NetNS = w.name("namespace", s.Namespace), w.name("pod", s.Name), ""
	}
	for i := range r.Attachments {
		a := &r.Attachments[i]
		a.Namespace, a.Name, a.NetNS = w.name("namespace", a.Namespace), w.name("pod", a.Name), ""
	}
	w.hashes[hash] = podstate.Hash(r)
	return r, nil
}

// lease returns a Lease of an agent as it is written, with the hash of its report as that is written. It is nil for a
// Lease of another name that no agent writes.
func (w *writer) lease(text []byte) (any, error) {
	l := &coordinationv1.Lease{}
	if err := decode(text, l); err != nil {
		return nil, err
	}
	hash, isAgents := l.Annotations[v1alpha1.HashAnnotation]
	if !isAgents && !w.nodes[l.Name] {
		return nil, nil
	}
	again := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(),
		Kind: "Lease"}, ObjectMeta: w.reducedMeta(&l.ObjectMeta, `"f:renewTime"`, v1alpha1.RestoreAnnotation,
		v1alpha1.HashAnnotation)}
	again.Spec.RenewTime = l.Spec.RenewTime
	if written, has := w.hashes[hash]; has {
		again.Annotations[v1alpha1.HashAnnotation] = written
	}
	return again, nil
}

// reducedMeta is the metadata of a report or its Lease, with the annotations and the managedFields that are read.
func (w *writer) reducedMeta(m *metav1.ObjectMeta, field string, annotations ...string) metav1.ObjectMeta {
	reduced := metav1.ObjectMeta{Namespace: w.name("namespace", m.Namespace), Name: w.name("node", m.Name), UID: m.UID,
		ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp}
	for name, value := range m.Annotations {
		if slices.Contains(annotations, name) {
			metav1.SetMetaDataAnnotation(&reduced, name, value)
		}
	}
	for _, f := range m.ManagedFields {
		entry := metav1.ManagedFieldsEntry{Time: f.Time, FieldsV1: metav1.NewFieldsV1("{}")}
		kept := fields{}
		for _, name := range []string{field, `"f:` + v1alpha1.RestoreAnnotation + `"`} {
			if f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(name)) {
				kept[name[1:len(name)-1]] = fields{}
			}
		}
		if text, err := json.Marshal(kept); err == nil {
			entry.FieldsV1 = metav1.NewFieldsV1(string(text))
		}
		reduced.ManagedFields = append(reduced.ManagedFields, entry)
	}
	return reduced
}
