package ippool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxRemovals is how many entries one patch removes at most. The API server
// takes 10,000 operations (apiserver, endpoints/handlers/patch.go,
// maxJSONPatchOperations); each entry needs two, the resourceVersion one.
const MaxRemovals = 4999

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// add is an operation of its own because its test value is null, which
// omitempty would drop.
type emptyTest struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func versionTest(p *Pool) operation {
	return operation{"test", "/metadata/resourceVersion", p.ResourceVersion}
}

func entryPath(key string) string {
	return "/spec/allocations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// RemovePatch builds the JSON patch that removes exactly the given entries of
// the pool: it tests the resourceVersion that they were judged at, and each
// entry in full, before it removes it. The patch has been applied to the pool
// as it was read, and it is an error if it would change anything else there.
// At most MaxRemovals allocations go into one patch.
func RemovePatch(p *Pool, allocations []Allocation) ([]byte, error) {
	if len(allocations) > MaxRemovals {
		return nil, fmt.Errorf("pool %s: %d entries in one patch; the API server takes %d", p.Ref(), len(allocations), MaxRemovals)
	}
	ops := []any{versionTest(p)}
	for _, a := range allocations {
		if a.Problem != "" {
			return nil, fmt.Errorf("pool %s: entry %q is %s and is never removed", p.Ref(), a.Key, a.Problem)
		}
		ops = append(ops, operation{"test", entryPath(a.Key), a.Entry}, operation{Op: "remove", Path: entryPath(a.Key)})
	}
	return checked(p, ops, func(entries map[string]any) {
		for _, a := range allocations {
			delete(entries, a.Key)
		}
	})
}

// AddPatch builds the JSON patch that writes one entry back into an empty slot
// of the pool; it tests the resourceVersion and that the slot is empty.
func AddPatch(p *Pool, key, containerID, podRef, ifName string) ([]byte, error) {
	entry := map[string]any{"id": containerID, "podref": podRef}
	if ifName != "" {
		entry["ifname"] = ifName
	}
	ops := []any{versionTest(p), emptyTest{"test", entryPath(key), nil}, operation{"add", entryPath(key), entry}}
	return checked(p, ops, func(entries map[string]any) { entries[key] = entry })
}

// checked applies a patch to the pool as it was read and compares the outcome
// with what is meant. A patch that does anything else is never sent: this is
// the last look at a write before an address can be handed out twice.
func checked(p *Pool, ops []any, meant func(entries map[string]any)) ([]byte, error) {
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("pool %s: build patch: %w", p.Ref(), err)
	}
	got, err := ApplyPatch(p.Object, patch)
	if err != nil {
		return nil, fmt.Errorf("pool %s: the patch does not apply to what was read: %w", p.Ref(), err)
	}
	want := p.Object.DeepCopy()
	entries, _, err := unstructured.NestedMap(want.Object, "spec", "allocations")
	if err != nil {
		return nil, fmt.Errorf("pool %s: spec.allocations: %w", p.Ref(), err)
	}
	if entries == nil {
		entries = map[string]any{}
	}
	meant(entries)
	if err := unstructured.SetNestedMap(want.Object, entries, "spec", "allocations"); err != nil {
		return nil, fmt.Errorf("pool %s: spec.allocations: %w", p.Ref(), err)
	}
	// Once through JSON, as the patched one went: 1.0 is 1 then.
	if want, err = ApplyPatch(want, []byte("[]")); err != nil {
		return nil, fmt.Errorf("pool %s: %w", p.Ref(), err)
	}
	if !reflect.DeepEqual(got.Object, want.Object) {
		return nil, fmt.Errorf("pool %s: the patch would change more than the entries meant; it was not sent", p.Ref())
	}
	return patch, nil
}

// ApplyPatch applies a JSON patch to an object, its tests included, and
// returns the outcome; the object itself stays as it is. It fails where the
// API server would answer 422.
func ApplyPatch(o *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	doc, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if doc, err = decoded.Apply(doc); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(doc)
}
