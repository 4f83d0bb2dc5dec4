package ippool_test

import (
	"reflect"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := judgetest.ApplyPatch(changed, patch); err == nil {
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
