//go:build slow

package e2e

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// poolsWithoutConversion stores the pools in a new version, from which a webhook converts whose service does not exist.
// The API server then answers no read and no write of pools in the old version.
func (i *statusStage) poolsWithoutConversion(t *testing.T) (end func()) {
	t.Helper()
	remove := i.changedCRD(t, harness.IPPools, anotherVersion(true))
	i.storesPoolsAs(t, "v1beta1")
	mend := i.changedCRD(t, harness.IPPools, func(spec map[string]any) {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{
				"service": map[string]any{"namespace": "default", "name": "gone"}}}}
	})
	isRead := func() bool {
		_, err := i.of(harness.IPPools).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}
	eventually(t, "pools not to be converted", func() bool { return !isRead() })
	return func() {
		mend()
		eventually(t, "pools to be read", isRead)
		i.storesPoolsAs(t, "v1alpha1")
		_, err := i.Dynamic().Resource(crds).Patch(t.Context(), "ippools.whereabouts.cni.cncf.io", types.MergePatchType,
			[]byte(`{"status":{"storedVersions":["v1alpha1"]}}`), metav1.PatchOptions{}, "status")
		check(t, err)
		remove()
	}
}

// storesPoolsAs changes the version in which etcd has the pools, as a migration of storage does.
func (i *statusStage) storesPoolsAs(t *testing.T, version string) {
	t.Helper()
	i.changedCRD(t, harness.IPPools, func(spec map[string]any) {
		for _, v := range spec["versions"].([]any) {
			v := v.(map[string]any)
			v["storage"] = v["name"] == version
		}
	})
	eventually(t, "pools to be stored as "+version, func() bool {
		done := true
		for _, p := range try(i.of(harness.IPPools).List(t.Context(), metav1.ListOptions{})).must(t).Items {
			_, err := i.of(harness.IPPools).Update(t.Context(), &p, metav1.UpdateOptions{}) // which writes it as it is
			stored := &unstructured.Unstructured{}
			key := "/registry/whereabouts.cni.cncf.io/ippools/" + p.GetNamespace() + "/" + p.GetName()
			check(t, json.Unmarshal(i.etcdGet(t, key), &stored.Object))
			done = done && err == nil && stored.GroupVersionKind().Version == version
		}
		return done
	})
}
