package ippool_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// withManagedFields is the JSON of an object as the API server sends it.
func withManagedFields(o *unstructured.Unstructured) []byte {
	o = o.DeepCopy()
	o.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "whereabouts",
		"fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	return []byte(jsonOf(o))
}

// Text that is cut out before an object is built makes no difference to what is read of it. Its allocations are tested
// and found as they are stored.
func TestAPoolIsDecodedAsItReadsFromABuiltObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := read(storedPoolGen().Draw(t, "pool"))
		got, err := ippool.Decode[ippool.Pool](withManagedFields(p.Object))
		if err != nil || jsonOf(got) != jsonOf(p.Pool) {
			t.Fatalf("got  %s, %v\nwant %s", jsonOf(got), err, jsonOf(p.Pool))
		}
		entries := entriesOf(p.Object)
		if len(got.Allocations) != len(entries) {
			t.Fatalf("%d of %d allocations", len(got.Allocations), len(entries))
		}
		for i := range got.Allocations {
			a := &got.Allocations[i]
			if a.Problem == "" && !reflect.DeepEqual(entryMap(*a), entries[a.Key]) {
				t.Fatalf("entry %q must be tested as %s, and is %s", a.Key, jsonOf(a.Entry()), jsonOf(entries[a.Key]))
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

// What a release deletes it can put back, as whereabouts wrote it.
func TestAReservationIsCreatedAgainAsItWas(t *testing.T) {
	for _, spec := range []map[string]any{
		{"podref": "default/a"}, {"podref": "default/a", "ifname": "net1"}, {"podref": "default/a", "ifname": ""},
		{"podref": "default/a", "containerid": "abc"},
	} {
		o := ippool.NewReservation("kube-system", "red", netip.MustParseAddr("10.0.0.5"), "", "").AsNew()
		o.Object["spec"] = spec
		want := o.DeepCopy()
		o.SetUID("u")
		o.SetResourceVersion("7")
		got, err := ippool.Decode[ippool.Reservation](withManagedFields(o))
		if built := ippool.Read[ippool.Reservation](o); err != nil || jsonOf(got) != jsonOf(built) {
			t.Fatalf("got  %s, %v\nwant %s", jsonOf(got), err, jsonOf(built))
		}
		if again := got.AsNew(); !reflect.DeepEqual(again.Object, want.Object) {
			t.Errorf("it would be created again as %s\nwant %s", jsonOf(again), jsonOf(want))
		}
	}
}

func TestATextThatIsNoObjectIsNotSound(t *testing.T) {
	for text, isJSON := range map[string]bool{`null`: true, `[]`: true, `5`: true, `"x"`: true, ` {}`: true,
		`{"spec":5,"metadata":[]}`: true, `{"spec":{"allocations":1e999}}`: false,
		``: false, `{`: false, `{} x`: false, `<html>`: false} {
		p, perr := ippool.Decode[ippool.Pool]([]byte(text))
		r, rerr := ippool.Decode[ippool.Reservation]([]byte(text))
		if (perr == nil) != isJSON || (rerr == nil) != isJSON || isJSON && (p.Problem == "" || r.Problem == "") {
			t.Errorf("%s: %s, %s", text, fmt.Sprint(p, perr), fmt.Sprint(r, rerr))
		}
	}
}
