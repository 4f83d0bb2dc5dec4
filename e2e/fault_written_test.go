//go:build slow

package e2e

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// ours compares what the product's patches did to the pools with what they were meant to do,
// and counts the entries that they removed. A patch tests the version that it is for, so the
// next version is its outcome.
func ours(pools *history, writes []harness.Write) (released int, strayed []error) {
	for _, w := range writes {
		if w.Program != "ip-reconcile" || w.Resource != harness.IPPools.Resource {
			continue
		}
		released += len(w.Removed)
		before, after := pools.step(w.Name, w.Base)
		if before == nil || after == nil {
			strayed = append(strayed, fmt.Errorf("no version is known that this was for: %s", w))
			continue
		}
		want := entriesOf(before)
		got := entriesOf(after)
		for _, key := range w.Removed {
			if want[key] == nil || got[key] != nil {
				strayed = append(strayed, fmt.Errorf("entry %s was %v, and is %v: %s", key, want[key], got[key], w))
			}
			delete(want, key)
		}
		for _, key := range w.Written {
			want[key] = got[key]
		}
		if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(outside(before), outside(after)) {
			strayed = append(strayed, fmt.Errorf("more was written than the entries meant: %v became %v: %s", before.Object, after.Object, w))
		}
	}
	return released, strayed
}

// outside is what a pool has beside its entries and what the API server writes itself.
func outside(pool *unstructured.Unstructured) map[string]any {
	o := pool.DeepCopy()
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	o.SetGeneration(0)
	unstructured.RemoveNestedField(o.Object, "spec", "allocations")
	return o.Object
}

// step returns a version of an object and the one after it.
func (h *history) step(name string, revision uint64) (before, after *unstructured.Unstructured) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions := h.of[name]
	i := slices.IndexFunc(versions, func(v version) bool { return v.revision == revision })
	if i < 0 || i+1 == len(versions) {
		return nil, nil
	}
	return versions[i].object, versions[i+1].object
}

// inOrder is a count of each kind, as text.
func inOrder(counts map[string]int) (text string) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(", %d %s", counts[kind], kind)
	}
	return text[min(len(text), 2):]
}
