//go:build slow

package e2e

import (
	"encoding/json"
	"path"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// withoutConversion stores a resource in a new version, from which a webhook converts whose service does not exist. The
// API server then answers no read and no write of the resource in the old version.
func (i *statusStage) withoutConversion(t *testing.T, r schema.GroupVersionResource) (end func()) {
	t.Helper()
	remove := i.changedCRD(t, r, anotherVersion(true))
	i.storesAs(t, r, "v1beta1")
	mend := i.changedCRD(t, r, func(spec map[string]any) {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{
				"service": map[string]any{"namespace": "default", "name": "gone"}}}}
	})
	isRead := func() bool {
		_, err := i.Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}
	eventually(t, r.Resource+" not to be converted", func() bool { return !isRead() })
	return func() {
		mend()
		eventually(t, r.Resource+" to be read", isRead)
		i.storesAs(t, r, "v1alpha1")
		_, err := i.Dynamic().Resource(crds).Patch(t.Context(), r.GroupResource().String(), types.MergePatchType,
			[]byte(`{"status":{"storedVersions":["v1alpha1"]}}`), metav1.PatchOptions{}, "status")
		check(t, err)
		remove()
	}
}

// storesAs changes the version in which etcd has a resource, as a migration of storage does.
func (i *statusStage) storesAs(t *testing.T, r schema.GroupVersionResource, version string) {
	t.Helper()
	i.changedCRD(t, r, func(spec map[string]any) {
		for _, v := range spec["versions"].([]any) {
			v := v.(map[string]any)
			v["storage"] = v["name"] == version
		}
	})
	all := i.Dynamic().Resource(r)
	eventually(t, r.Resource+" to be stored as "+version, func() bool {
		done := true
		for _, o := range try(all.List(t.Context(), metav1.ListOptions{})).must(t).Items {
			_, err := all.Namespace(o.GetNamespace()).Update(t.Context(), &o, metav1.UpdateOptions{}) // which writes it as it is
			stored := &unstructured.Unstructured{}
			key := path.Join("/registry", r.Group, r.Resource, o.GetNamespace(), o.GetName())
			check(t, json.Unmarshal(i.etcdGet(t, key), &stored.Object))
			done = done && err == nil && stored.GroupVersionKind().Version == version
		}
		return done
	})
}
