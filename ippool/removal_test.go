package ippool_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Only a pool that was read whole and has no entry at all can be deleted, and only that version of it.
func TestRemoval_OfAnEmptyPoolOnly(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *unstructured.Unstructured)
		why    string // of the refusal
	}{
		"empty": {func(*unstructured.Unstructured) {}, ""},
		"with an entry": {func(o *unstructured.Unstructured) { setEntry(t, o, "5", entryOf("c5", "default/a")) },
			"has 1 allocations"},
		"with an entry that cannot be read": {func(o *unstructured.Unstructured) {
			setEntry(t, o, "-1", map[string]any{"x": "y"})
		}, "has 1 allocations"},
		"without the field allocations": {func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "spec", "allocations")
		}, "no field spec.allocations"},
		"with a list of allocations": {func(o *unstructured.Unstructured) {
			o.Object["spec"].(map[string]any)["allocations"] = []any{}
		}, "cannot be read"},
		"without a range": {func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "spec", "range")
		}, "cannot be read"},
		"with a finalizer": {func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/keep"}) },
			"metadata.finalizers"},
		"being deleted": {func(o *unstructured.Unstructured) {
			o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-20T10:00:00Z"
		}, "is being deleted"},
		"without a UID":             {func(o *unstructured.Unstructured) { o.SetUID("") }, "was read without"},
		"without a resourceVersion": {func(o *unstructured.Unstructured) { o.SetResourceVersion("") }, "was read without"},
	} {
		o := poolOf("10.0.0.0/24", nil).Object.DeepCopy()
		o.SetUID("the-uid")
		c.change(o)
		text, err := o.MarshalJSON()
		check(t, err)
		decoded, err := ippool.Decode[ippool.Pool](text)
		check(t, err)
		for _, p := range []*ippool.Pool{ippool.Read[ippool.Pool](o), decoded} {
			r, err := ippool.NewRemoval(p)
			switch {
			case c.why == "" && err != nil, c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)):
				t.Errorf("%s: %v", name, err)
			case err == nil:
				uid, version := r.Version()
				if r.Pool() != p.NamespacedName || uid != "the-uid" || version != p.ResourceVersion {
					t.Errorf("it is of %v, %s, %s", r.Pool(), uid, version)
				}
			}
		}
	}
}
