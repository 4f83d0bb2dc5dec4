package ippool_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// anyText draws JSON, often with what no client writes: repeated names, odd
// white space, escapes, values of other types.
func anyText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{`null`, `true`, `5`, `-1.5e3`, `""`}).Draw(t, "value")
		case 1, 2, 3, 4:
			return textOf(rapid.OneOf(rapid.SampledFrom([]string{"default/a", "net1", "true", "10.0.0.0/24", "fd00::5/64", "a/b_uid", "weird"}), rapid.String()).Draw(t, "text"))
		case 5:
			return "[" + strings.Join(rapid.SliceOfN(anyText(depth-1), 0, 3).Draw(t, "list"), " , ") + "]"
		}
		return objectText(t, anyText(depth-1), "id", "podref", "ifname", "name", "later")
	})
}

// textOf writes a string, sometimes in escapes.
func textOf(s string) string {
	out := jsonOf(s)
	return strings.ReplaceAll(out, "a/b", `\u0061\/b`)
}

func objectText(t *rapid.T, value *rapid.Generator[string], names ...string) string {
	var members []string
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		members = append(members, textOf(rapid.SampledFrom(names).Draw(t, "name"))+": "+value.Draw(t, "value"))
	}
	return "{" + strings.Join(members, ",\n") + "}"
}

func usualOr(usual ...string) *rapid.Generator[string] {
	all := []*rapid.Generator[string]{anyText(2)}
	for _, u := range usual {
		all = append(all, rapid.Just(u), rapid.Just(u))
	}
	return rapid.OneOf(all...)
}

func metadataText() *rapid.Generator[string] {
	return rapid.OneOf(anyText(1), rapid.Custom(func(t *rapid.T) string {
		annotations := usualOr(`{"ip-reconcile.dev/paused": "true"}`, `{"ip-reconcile.dev/paused": "true", "other": 5}`, `{"ip-reconcile.dev/paused": "no"}`).Draw(t, "annotations")
		return fmt.Sprintf(`{"name": %s, "namespace": "kube-system", "uid": %s, "resourceVersion": %s, "annotations": %s, "creationTimestamp": %s,
			"managedFields": [{"fieldsV1": {"f:spec": {"f:id": {}}}}]}`,
			usualOr(`"pool"`).Draw(t, "name"), usualOr(`"u"`).Draw(t, "uid"), usualOr(`"41"`).Draw(t, "version"), annotations,
			usualOr(`"2026-11-20T10:00:00Z"`, `"2026-11-20T10:00:00.5+01:00"`, `null`).Draw(t, "created"))
	}))
}

func entryText() *rapid.Generator[string] {
	return rapid.OneOf(anyText(2), rapid.Just(`{"id": "c", "podref": "default/a", "ifname": "net1"}`), rapid.Just(`{"id": "c", "podref": "default/a"}`),
		rapid.Custom(func(t *rapid.T) string {
			return objectText(t, usualOr(`"default/a"`, `"net1"`), "id", "podref", "podref", "ifname", "Id", "later")
		}))
}

func poolText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		entries := rapid.OneOf(anyText(1), rapid.Custom(func(t *rapid.T) string {
			return objectText(t, entryText(), "0", "5", "09", "9", "10", "-1", "300", "x", "\u00e9<")
		})).Draw(t, "allocations")
		spec := usualOr(fmt.Sprintf(`{"allocations": %s, "range": %s, "later": [1]}`, entries, usualOr(`"10.0.0.0/24"`, `"10.0.0.5/24"`, `"fd00::/64"`).Draw(t, "range"))).Draw(t, "spec")
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "IPPool", "metadata": %s, "spec": %s}`, metadataText().Draw(t, "metadata"), spec)
	})
}

// built is the text as the dynamic client builds an object of it.
func built(t tester, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("test data: %v\n%s", err, text)
	}
	return o
}

func ordered(entry any) ippool.Entry {
	var e ippool.Entry
	for name, into := range map[string]**string{"id": &e.ID, "podref": &e.PodRef, "ifname": &e.IfName} {
		if s, ok := entry.(map[string]any)[name].(string); ok {
			*into = &s
		}
	}
	return e
}

// What is left out before an object is built makes no difference to what is read of it. Its entries are tested and found as
// they are stored.
func TestAPoolIsDecodedAsItReadsFromABuiltObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := poolText().Draw(t, "pool")
		o := built(t, text)
		got, err := ippool.DecodePool([]byte(text))
		if want := ippool.ReadPool(o); err != nil || jsonOf(got) != jsonOf(want) {
			t.Fatalf("got  %s, %v\nwant %s\nof %s", jsonOf(got), err, jsonOf(want), text)
		}
		spec, _ := o.Object["spec"].(map[string]any)
		entries, _ := spec["allocations"].(map[string]any)
		if len(got.Allocations) != len(entries) {
			t.Fatalf("%d of %d entries", len(got.Allocations), len(entries))
		}
		for i := range got.Allocations {
			a := &got.Allocations[i]
			if a.Problem == "" && jsonOf(a.Entry()) != jsonOf(ordered(entries[a.Key])) {
				t.Fatalf("entry %q is to be tested as %s in\n%s", a.Key, jsonOf(a.Entry()), text)
			}
			if a.Address.IsValid() && !got.Range.Contains(a.Address) {
				t.Fatalf("%s is outside %s", a.Address, got.RangeText)
			}
			if f := got.Find(a.Key); f != a {
				t.Fatalf("key %q finds %+v", a.Key, f)
			}
		}
	})
}

func TestAReservationIsDecodedAsItReadsFromABuiltObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.OneOf(anyText(1), rapid.Just(`{"podref": "default/a", "ifname": "net1"}`), rapid.Custom(func(t *rapid.T) string {
			return objectText(t, usualOr(`"default/a"`, `"net1"`), "podref", "podref", "ifname", "containerid", "later")
		})).Draw(t, "spec")
		more := rapid.SampledFrom([]string{"", `, "status": {"later": 1}`}).Draw(t, "more")
		text := fmt.Sprintf(`{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation", "metadata": %s, "spec": %s%s}`,
			metadataText().Draw(t, "metadata"), spec, more)
		got, err := ippool.DecodeReservation([]byte(text))
		o := built(t, text)
		if want := ippool.ReadReservation(o); err != nil || jsonOf(got) != jsonOf(want) {
			t.Fatalf("got  %s, %v\nwant %s\nof %s", jsonOf(got), err, jsonOf(want), text)
		}
		for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		if got.Problem == "" && got.Namespace != "" && got.Name != "" && !reflect.DeepEqual(got.AsNew().Object, o.Object) {
			t.Fatalf("it would be created again as %s\nwant %s", jsonOf(got.AsNew()), jsonOf(o))
		}
		again := ippool.ReadReservation(got.AsNew())
		if again.UID+again.ResourceVersion != "" || !again.Created.IsZero() || again.PodRef != got.PodRef || again.IfName != got.IfName {
			t.Fatalf("created again as %s\nof %s", jsonOf(got.AsNew()), text)
		}
	})
}
