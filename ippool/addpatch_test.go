package ippool_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestWritingBackTestsTheVersionAndTheEmptySlotThenAdds(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"7": entryOf("c7", "default/c")})
	patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/a", IfName: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []operation{
		{"test", "/metadata/resourceVersion", "41"},
		{"test", "/spec/allocations/5", nil},
		{"add", "/spec/allocations/5", entryOf("c5", "default/a")},
	}
	if got := operations(t, patch); !reflect.DeepEqual(got, want) {
		t.Errorf("operations\n%s\nwant\n%s", jsonOf(got), jsonOf(want))
	}
	out, err := ippool.ApplyPatch(p.Object, patch)
	if err != nil {
		t.Fatal(err)
	}
	after := ippool.ReadPool(out)
	if a := after.Find("5"); a == nil || a.Problem != "" || a.ContainerID != "c5" || a.PodRef != "default/a" || a.IfName != "net1" {
		t.Errorf("entry %+v", a)
	}
	if after.Find("7") == nil || len(after.Allocations) != 2 {
		t.Errorf("the pool is now %s", jsonOf(out))
	}
}

func TestWritingBackIntoATakenSlotFails(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": entryOf("c5", "default/b")})
	if patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c9", PodRef: "default/a", IfName: "net1"}}); err == nil {
		t.Errorf("the slot was taken when it was read, and still: %s", patch)
	}
	// The very same entry is no empty slot either.
	if patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/b", IfName: "net1"}}); err == nil {
		t.Errorf("%s", patch)
	}
}

func TestWritingBackFailsOnceTheSlotIsTakenOrThePoolChanged(t *testing.T) {
	p := poolOf("10.0.0.0/24", nil)
	patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/a", IfName: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	taken := p.Object.DeepCopy()
	setEntry(t, taken, "5", entryOf("new", "default/new"))
	if _, err := ippool.ApplyPatch(taken, patch); err == nil {
		t.Error("it overwrites what ADD gave to another pod")
	}
	newer := p.Object.DeepCopy()
	newer.SetResourceVersion("42")
	if _, err := ippool.ApplyPatch(newer, patch); err == nil {
		t.Error("it applies to another resourceVersion")
	}
	if _, err := ippool.ApplyPatch(p.Object, patch); err != nil {
		t.Errorf("on what was read: %v", err)
	}
}

func TestAnEntryIsWrittenBackWithoutAnIfNameThatIsNotKnown(t *testing.T) {
	p := poolOf("10.0.0.0/24", nil)
	patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/a_uid-1", IfName: ""}})
	if err != nil {
		t.Fatal(err)
	}
	if got := jsonOf(operations(t, patch)[2].Value); got != `{"id":"c5","podref":"default/a_uid-1"}` {
		t.Errorf("entry %s", got)
	}
}

// A pool without the map cannot be added to by "add" on a key of it; that must
// be an error here, not a patch that the API server refuses later.
func TestWritingBackIntoAPoolWithoutAllocationsIsAnErrorOrWorks(t *testing.T) {
	p := poolOf("10.0.0.0/24", nil)
	o := p.Object.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "spec", "allocations")
	p = read(o)
	patch, err := ippool.AddPatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c5", PodRef: "default/a", IfName: "net1"}})
	if err != nil {
		return
	}
	if out, err := ippool.ApplyPatch(p.Object, patch); err != nil || ippool.ReadPool(out).Find("5") == nil {
		t.Errorf("%s gives %s, %v", patch, jsonOf(out), err)
	}
}
