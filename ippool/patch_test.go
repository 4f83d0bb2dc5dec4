package ippool_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

type operation struct {
	Op, Path string
	Value    any
}

func operations(t tester, patch []byte) []operation {
	t.Helper()
	var ops []operation
	if err := json.Unmarshal(patch, &ops); err != nil {
		t.Fatalf("the patch is no list of operations: %v", err)
	}
	return ops
}

func setEntry(t tester, o *unstructured.Unstructured, key string, entry map[string]any) {
	t.Helper()
	if err := unstructured.SetNestedMap(o.Object, entry, "spec", "allocations", key); err != nil {
		t.Fatalf("%v", err)
	}
}

func TestWhatCannotBeJudgedIsNeverRemoved(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{
		"-1":  entryOf("c1", "default/a"),
		"300": entryOf("c2", "default/a"),
		"4":   map[string]any{"id": "c4"},
		"6":   map[string]any{"id": "c6", "podref": "default/a", "ipamclaimref": "claim"},
		"8":   "not an object",
		"5":   entryOf("c5", "default/a"),
	})
	for _, key := range []string{"-1", "300", "4", "6", "8"} {
		if patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{*p.Find("5"), *p.Find(key)}); err == nil ||
			!strings.Contains(err.Error(), "never removed") {
			t.Errorf("key %s: %s, %v", key, patch, err)
		}
	}
	if _, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{*p.Find("5")}); err != nil {
		t.Errorf("the sound allocation beside them: %v", err)
	}
}

func TestAnEntryIsNotRemovedTwiceAndNotOnceItIsGone(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("c5", "default/a")})
	five := *p.Find("5")
	if _, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{five, five}); err == nil {
		t.Error("one allocation twice in a patch")
	}
	if _, err := ippool.RemovePatch(poolOf("10.0.0.0/24", nil).Pool, []ippool.Allocation{five}); err == nil {
		t.Error("an allocation that the pool does not have")
	}
	if _, err := ippool.RemovePatch(poolOf("10.0.0.0/24", map[string]any{"5": entryOf("other", "default/a")}).Pool,
		[]ippool.Allocation{five}); err == nil {
		t.Error("an allocation that reads otherwise in the pool")
	}
}

func TestAPoolWithoutAResourceVersionGetsNoPatch(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("c5", "default/a")})
	o := p.Object.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	p = read(o)
	if patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{*p.Find("5")}); err == nil {
		t.Errorf("a patch that proves nothing: %s", patch)
	}
}

// The API server takes 10,000 operations: the version's test and two an allocation.
func TestAPatchStaysWithinWhatTheAPIServerTakes(t *testing.T) {
	entries := map[string]any{}
	for i := range ippool.MaxRemovals + 1 {
		entries[fmt.Sprint(i)] = entryOf(fmt.Sprintf("c%d", i), "default/a")
	}
	p := poolOf("10.0.0.0/16", entries)
	if _, err := ippool.RemovePatch(p.Pool, p.Allocations); err == nil || !strings.Contains(err.Error(), "4999") {
		t.Errorf("%d allocations: %v", len(p.Allocations), err)
	}
	patch, err := ippool.RemovePatch(p.Pool, p.Allocations[:ippool.MaxRemovals])
	check(t, err)
	equal(t, "operations", len(operations(t, patch)), 9999)
	equal(t, "most removals", ippool.MaxRemovals, 4999)
	out, err := fakeapi.ApplyPatch(p.Object, patch)
	check(t, err)
	equal(t, "allocations left", len(ippool.Read[ippool.Pool](out).Allocations), 1)
}

func TestWritingBackIntoATakenSlotFails(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("c5", "default/b")})
	if patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c9", PodRef: "default/a",
		IfName: "net1"}}); err == nil {
		t.Errorf("the slot was taken when it was read, and still: %s", patch)
	}
	// The very same allocation is no empty slot either.
	if patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/b",
		IfName: "net1"}}); err == nil {
		t.Errorf("%s", patch)
	}
}

func TestAnEntryIsReplacedOnlyWhileItIsTheVeryOneThatWasSeen(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("old", "default/a"), "7": entryOf("c7", "default/c")})
	patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{
		{Key: "5", ContainerID: "new", PodRef: "default/b", IfName: "net1", Replaces: p.Find("5")},
		{Key: "6", ContainerID: "c6", PodRef: "default/d", IfName: "net1"},
	})
	check(t, err)
	want := []operation{
		{"test", "/metadata/resourceVersion", "41"},
		{"test", "/spec/allocations/5", entryOf("old", "default/a")},
		{"replace", "/spec/allocations/5", entryOf("new", "default/b")},
		{"test", "/spec/allocations/6", nil},
		{"add", "/spec/allocations/6", entryOf("c6", "default/d")},
	}
	if got := operations(t, patch); !reflect.DeepEqual(got, want) {
		t.Errorf("operations\n%s\nwant\n%s", jsonOf(got), jsonOf(want))
	}
	for says, entry := range map[string]map[string]any{
		"its id changed": entryOf("other", "default/a"), "its podref changed": entryOf("old", "default/x"), "it is gone": nil,
	} {
		changed := p.Object.DeepCopy()
		setEntry(t, changed, "5", entry)
		if _, err := fakeapi.ApplyPatch(changed, patch); err == nil {
			t.Errorf("%s, and it is replaced all the same", says)
		}
	}
}

func TestOnlyAReadableEntryOfThatKeyIsReplaced(t *testing.T) {
	odd := entryOf("c6", "default/b")
	odd["since"] = "2026"
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("c5", "default/a"), "6": odd})
	for says, e := range map[string]ippool.NewEntry{
		"an allocation with an unknown field": {Key: "6", ContainerID: "new", PodRef: "default/n", Replaces: p.Find("6")},
		"the allocation under another key":    {Key: "7", ContainerID: "new", PodRef: "default/n", Replaces: p.Find("5")},
	} {
		if patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{e}); err == nil {
			t.Errorf("%s: %s", says, patch)
		}
	}
}
