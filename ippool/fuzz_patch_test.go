package ippool_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// storedText is a pool as the API server may have it: what it stores is an IPPool with a
// name and a resourceVersion, without repeated names.
func storedText(text []byte) (stored, bool) {
	o := &unstructured.Unstructured{}
	if o.UnmarshalJSON(text) != nil || o.GetResourceVersion() == "" || o.IsList() {
		return stored{}, false
	}
	again, err := o.MarshalJSON()
	if err != nil || o.UnmarshalJSON(again) != nil {
		return stored{}, false
	}
	return read(o), true
}

func entriesOf(o *unstructured.Unstructured) map[string]any {
	spec, _ := o.Object["spec"].(map[string]any)
	entries, _ := spec["allocations"].(map[string]any)
	return entries
}

// sameBeside reports whether two pools differ in nothing but their entries.
func sameBeside(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, o := range []*unstructured.Unstructured{a, b} {
		if spec, ok := o.Object["spec"].(map[string]any); ok {
			delete(spec, "allocations")
		}
	}
	return reflect.DeepEqual(a.Object, b.Object)
}

// FuzzAPatchRemovesTheEntriesMeantAndNothingElse: applied to the pool that was judged it removes
// exactly the entries; to any other pool it does the same, or fails.
func FuzzAPatchRemovesTheEntriesMeantAndNothingElse(f *testing.F) {
	texts := poolTexts()
	for i, text := range texts {
		f.Add([]byte(text), []byte(texts[0]), uint64(1)<<i|1)
		f.Add([]byte(texts[0]), []byte(text), ^uint64(0))
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"IPPool","metadata":{"resourceVersion":"1"},"spec":{"range":"fd00::/64","allocations":{"~1":{"podref":"a/b"},"a/b":{"podref":"a/b"},"":{"podref":"a/b"},"5":{"podref":"a/b","id":null}}}}`), []byte(texts[0]), ^uint64(0))
	f.Fuzz(func(t *testing.T, text, otherText []byte, which uint64) {
		p, ok := storedText(text)
		if !ok {
			return
		}
		var meant []ippool.Allocation
		for i, a := range p.Allocations {
			if a.Problem == "" && which>>(i%64)&1 == 1 {
				meant = append(meant, a)
			}
		}
		patch, err := ippool.RemovePatch(p.Pool, meant)
		if err != nil {
			t.Fatalf("no patch for %s: %v", text, err)
		}
		removes := func(o *unstructured.Unstructured) bool {
			got, err := ippool.ApplyPatch(o, patch)
			if err != nil {
				return false
			}
			want := maps.Clone(entriesOf(o))
			for _, a := range meant {
				if !reflect.DeepEqual(want[a.Key], entryMap(a)) {
					t.Fatalf("%s\nremoves %q from %s, which is not the entry that was judged", patch, a.Key, jsonOf(o))
				}
				delete(want, a.Key)
			}
			if left := entriesOf(got); len(left)+len(want) > 0 && !reflect.DeepEqual(left, want) || !sameBeside(got, o) || o.GetResourceVersion() != p.ResourceVersion {
				t.Fatalf("%s\nmakes %s\nof %s", patch, jsonOf(got), jsonOf(o))
			}
			return true
		}
		if !removes(p.Object) {
			t.Fatalf("%s does not apply to %s", patch, text)
		}
		if other, ok := storedText(otherText); ok {
			removes(other.Object)
			other.Object.SetResourceVersion(p.ResourceVersion) // as if nothing but the test of the entries were there
			removes(other.Object)
		}
	})
}

// FuzzAPatchWritesTheEntryMeantAndNothingElse: into an empty slot or in the place of the very
// entry that it replaces.
func FuzzAPatchWritesTheEntryMeantAndNothingElse(f *testing.F) {
	texts := poolTexts()
	for _, text := range texts {
		f.Add([]byte(text), []byte(texts[0]), "5", "c-new", "default/new", "net2")
		f.Add([]byte(text), []byte(texts[0]), "6", "c-new", "default/new_uid", "")
		f.Add([]byte(texts[0]), []byte(text), "~0/", "\u2028<&>", "\xff", "\x00")
	}
	f.Fuzz(func(t *testing.T, text, otherText []byte, key, id, podRef, ifName string) {
		p, ok := storedText(text)
		if !ok {
			return
		}
		e := ippool.NewEntry{Key: key, ContainerID: id, PodRef: podRef, IfName: ifName, Replaces: p.Find(key)}
		patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{e})
		if err != nil {
			return // what cannot be written is not
		}
		var written map[string]any
		entry := map[string]string{"id": id, "podref": podRef}
		if ifName != "" {
			entry["ifname"] = ifName
		}
		if err := json.Unmarshal([]byte(jsonOf(entry)), &written); err != nil {
			t.Fatal(err)
		}
		var as string
		if err := json.Unmarshal([]byte(jsonOf(key)), &as); err != nil {
			t.Fatal(err)
		}
		writes := func(o *unstructured.Unstructured) bool {
			got, err := ippool.ApplyPatch(o, patch)
			if err != nil {
				return false
			}
			before := entriesOf(o)
			if there := before[as]; e.Replaces == nil && there != nil || e.Replaces != nil && !reflect.DeepEqual(there, entryMap(*e.Replaces)) {
				t.Fatalf("%s\noverwrites %s in %s", patch, jsonOf(there), jsonOf(o))
			}
			want := maps.Clone(before)
			if want == nil {
				want = map[string]any{}
			}
			want[as] = any(written)
			if !reflect.DeepEqual(entriesOf(got), want) || !sameBeside(got, o) {
				t.Fatalf("%s\nmakes %s\nof %s", patch, jsonOf(got), jsonOf(o))
			}
			return true
		}
		if !writes(p.Object) {
			t.Fatalf("%s does not apply to %s", patch, text)
		}
		if other, ok := storedText(otherText); ok {
			other.Object.SetResourceVersion(p.ResourceVersion)
			writes(other.Object)
		}
	})
}
