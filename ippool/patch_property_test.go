package ippool_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// storedPoolGen draws pools as years of versions and accidents leave them: odd
// keys, allocations of every kind, fields that are not known at every level.
func storedPoolGen() *rapid.Generator[*unstructured.Unstructured] {
	key := rapid.OneOf(
		rapid.StringMatching(`[0-9]{1,3}`), // leading zeros too: "09" and "9" are two allocations
		rapid.SampledFrom([]string{"-1", "-3", "18446463705355360228", "9223372036854775808", "+5", "a/b", "a~b", "~1", "~0",
			"", " ", "é", "<&>", "\"", "10.0.0.5", "-"}),
		rapid.String(),
	)
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "c5", "default/a", "default/b", "weird", "<&>", "é\u2028"}),
		rapid.String())
	entry := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 7).Draw(t, "kind of entry") {
		case 0:
			return text.Draw(t, "no object")
		case 1:
			return map[string]any{"id": "c", "podref": "default/a", "later": map[string]any{"n": rapid.Int64().Draw(t, "n"),
				"list": []any{true, nil, "x"}}}
		case 2:
			return map[string]any{"id": text.Draw(t, "id"), "podref": text.Draw(t, "podref")}
		case 3:
			return nil
		}
		return map[string]any{"id": text.Draw(t, "id"), "podref": "default/a", "ifname": text.Draw(t, "ifname")}
	})
	return rapid.Custom(func(t *rapid.T) *unstructured.Unstructured {
		entries := map[string]any{}
		for k, e := range rapid.MapOfN(key, entry, 0, 12).Draw(t, "entries") {
			entries[k] = e
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
			"kind":       "IPPool",
			"metadata": map[string]any{
				"namespace": "kube-system", "name": "pool", "resourceVersion": rapid.StringMatching(`[1-9][0-9]{0,9}`).Draw(t,
					"version"),
				"annotations": map[string]any{"note": text.Draw(t, "note")},
			},
			"spec": map[string]any{
				"range": rapid.SampledFrom([]string{"fd00::/64", "10.0.0.0/22", "10.0.0.5/24", "193::/24"}).Draw(t, "range"),
				"later": map[string]any{"big": int64(9007199254740993), "odd": text.Draw(t, "odd")}, "allocations": entries,
			},
			"status": map[string]any{"later": true},
		}}
	})
}

func entriesOf(o *unstructured.Unstructured) map[string]any {
	return o.Object["spec"].(map[string]any)["allocations"].(map[string]any)
}

// applied checks that a patch makes a pool what is meant, and that got, what is known of the pool then, is what is read
// of it.
func applied(t tester, p stored, patch []byte, want *unstructured.Unstructured,
	got *ippool.Pool) *unstructured.Unstructured {
	t.Helper()
	before := p.Object.DeepCopy()
	after, err := fakeapi.ApplyPatch(p.Object, patch)
	if err != nil {
		t.Fatalf("%s does not apply: %v", patch, err)
	}
	if !reflect.DeepEqual(after.Object, want.Object) {
		t.Fatalf("%s\ngives %s\nwant  %s", patch, jsonOf(after), jsonOf(want))
	}
	if !reflect.DeepEqual(p.Object.Object, before.Object) || jsonOf(p.Pool) != jsonOf(ippool.Read[ippool.Pool](before)) {
		t.Fatalf("building or applying a patch changed what was read")
	}
	after.SetResourceVersion("later")
	read := ippool.Read[ippool.Pool](after)
	if len(got.Allocations)+len(read.Allocations) > 0 && jsonOf(got) != jsonOf(read) {
		t.Fatalf("got  %s\nwant %s", jsonOf(got), jsonOf(read))
	}
	return after
}

// A15: keys that are no int64, and keys with leading zeros, stay as they are. Without reports what the API server
// stores: the next batch rests on it.
func TestAPatchRemovesTheEntriesMeantAndNothingElseOfAnyPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := read(storedPoolGen().Draw(t, "pool"))
		want := p.Object.DeepCopy()
		var meant []ippool.Allocation
		for _, a := range p.Allocations {
			if a.Problem == "" && rapid.Bool().Draw(t, "remove "+a.Key) {
				meant = append(meant, a)
				delete(entriesOf(want), a.Key)
			}
		}
		patch, err := ippool.RemovePatch(p.Pool, meant)
		if err != nil {
			t.Fatalf("no patch for %s: %v", jsonOf(meant), err)
		}
		checkOrder(t, patch, p.Pool, meant)
		got := p.Without(meant, "later")
		after := applied(t, p, patch, want, got)
		rest := slices.DeleteFunc(slices.Clone(got.Allocations), func(a ippool.Allocation) bool { return a.Problem != "" })
		if patch, err = ippool.RemovePatch(got, rest); err != nil {
			t.Fatal(err)
		}
		if _, err := fakeapi.ApplyPatch(after, patch); err != nil {
			t.Fatalf("the next patch, of what is left: %s: %v", patch, err)
		}
	})
}

// Into an empty slot, or in the place of the very allocation that it replaces.
func TestAPatchWritesTheEntryMeantAndNothingElseIntoAnyPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := read(storedPoolGen().Draw(t, "pool"))
		key := rapid.OneOf(rapid.SampledFrom([]string{"7", "~0/", "a/b", "-1"}), rapid.StringMatching(`[0-9]{1,2}`)).Draw(t,
			"key")
		if len(p.Allocations) > 0 && rapid.Bool().Draw(t, "taken") {
			key = rapid.SampledFrom(p.Allocations).Draw(t, "of").Key
		}
		text := rapid.SampledFrom([]string{"c-new", "default/new", "default/new_uid", "\u2028<&>", "", "net2"})
		e := ippool.NewEntry{Key: key, ContainerID: text.Draw(t, "id"), PodRef: text.Draw(t, "podref"),
			IfName: text.Draw(t, "ifname"), Replaces: p.Find(key)}
		patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{e})
		if err != nil {
			if e.Replaces == nil || e.Replaces.Problem == "" {
				t.Fatal(err)
			}
			return // what cannot be judged is not replaced
		}
		want := p.Object.DeepCopy()
		entry := map[string]any{"id": e.ContainerID, "podref": e.PodRef}
		if e.IfName != "" {
			entry["ifname"] = e.IfName
		}
		entriesOf(want)[key] = entry
		applied(t, p, patch, want, p.With([]ippool.NewEntry{e}, "later"))
		other := p.Object.DeepCopy() // of the same version, with another allocation in the slot
		entriesOf(other)[key] = map[string]any{"id": "other", "podref": "default/other"}
		if out, err := fakeapi.ApplyPatch(other, patch); err == nil {
			t.Fatalf("%s overwrites what came between: %s", patch, jsonOf(out))
		}
	})
}

func checkOrder(t tester, patch []byte, p *ippool.Pool, meant []ippool.Allocation) {
	t.Helper()
	ops := operations(t, patch)
	if len(ops) != 1+2*len(meant) || ops[0].Op != "test" || ops[0].Path != "/metadata/resourceVersion" ||
		ops[0].Value != p.ResourceVersion {
		t.Fatalf("%s does not begin with the version's test, or has other than two operations an allocation", patch)
	}
	for i, a := range meant {
		test, remove := ops[1+2*i], ops[2+2*i]
		if test.Op != "test" || remove.Op != "remove" || test.Path != remove.Path ||
			jsonOf(test.Value) != jsonOf(entryMap(a)) {
			t.Fatalf("entry %q: %s, then %s", a.Key, jsonOf(test), jsonOf(remove))
		}
	}
}

// Whatever one of ADD and DEL does to the pool in between: a patch that was
// built before it fails, and so does it on the API server.
func TestAPatchFailsOnAnyOtherVersionOfAnyPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := read(storedPoolGen().Draw(t, "pool"))
		sound := slices.DeleteFunc(slices.Clone(p.Allocations), func(a ippool.Allocation) bool { return a.Problem != "" })
		if len(sound) == 0 {
			t.Skip("nothing to remove")
		}
		a := rapid.SampledFrom(sound).Draw(t, "entry")
		patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{a})
		check(t, err)
		changed := p.Object.DeepCopy()
		entry := entriesOf(changed)[a.Key].(map[string]any)
		if rapid.Bool().Draw(t, "the version changes") {
			changed.SetResourceVersion(p.ResourceVersion + "0")
		} else {
			field := rapid.SampledFrom(slices.Sorted(maps.Keys(entry))).Draw(t, "field")
			if rapid.Bool().Draw(t, "the field goes") {
				delete(entry, field)
			} else {
				entry[field] = entry[field].(string) + "x"
			}
		}
		if out, err := fakeapi.ApplyPatch(changed, patch); err == nil {
			t.Fatalf("%s applies to %s and gives %s", patch, jsonOf(changed), jsonOf(out))
		}
	})
}
