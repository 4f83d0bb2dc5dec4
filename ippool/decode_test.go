package ippool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
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

// asBuilt is a text as encoding/json builds it, numbers verbatim; ok is false where it is
// not JSON. Other values than objects have no members.
func asBuilt(text []byte) (o *unstructured.Unstructured, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if !json.Valid(text) || dec.Decode(&v) != nil {
		return nil, false
	}
	object, _ := v.(map[string]any)
	return &unstructured.Unstructured{Object: object}, true
}

func poolTexts() []string {
	whole := `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"10.0.0.0-24",` +
		`"namespace":"kube-system","uid":"u","resourceVersion":"41",` +
		`"annotations":{"ip-reconcile.dev/paused":"true"},"managedFields":[{"fieldsV1":{"f:spec":{}}}]},"spec":{` +
		`"range":"10.0.0.0/24","allocations":{"5":{"id":"c5","podref":"default/a","ifname":"net1"},` +
		`"09":{"id":"c9","podref":"default/b"},"9":{"id":"c9","podref":"default/b"},"-1":{"podref":"default/c"},"300":{` +
		`"id":"x","podref":"default/a","later":1},"x":null,"7":{"id":7,"podref":"a"}}}}`
	return []string{whole, strings.ReplaceAll(whole, "10.0.0.0/24", "10.0.0.5/24"), strings.ReplaceAll(whole,
		"10.0.0.0/24", "fd00::/64"), strings.ReplaceAll(whole, `"41"`, `41`),
		`{"spec":{"allocations":null}}`, `{"spec":{"allocations":[]}}`, `{"spec":5,"metadata":[]}`,
		`{"spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"a","podref":"d/a","id":"b"},"5":{"podref":"d/b"}}}}`,
		`{"metadata":{"name":"\ud800","resourceVersion":"7"},"spec":{"range":"::/0","allocations":{"\u0035":{` +
			`"podref":"d\/a"}}}}`, `[]`, `null`, `{`, `{"spec":{"range":"::ffff:10.0.0.0/120"}}`}
}

// FuzzAListIsDecodedAsItsItemsAre: the pages of a LIST, which are never taken for empty
// where they are none.
func FuzzAListIsDecodedAsItsItemsAre(f *testing.F) {
	f.Add([]byte(`{"kind":"IPPoolList","metadata":{"resourceVersion":"7","continue":"x"},"items":[` +
		strings.Join(poolTexts()[:4], ",") + `]}`))
	f.Add([]byte(`{"kind":"List","items":[` + poolTexts()[0] + `]}`))
	f.Add([]byte(`{"kind":"IPPoolList","items":[{"metadata":{"namespace":"a","name":"b"}},{"kind":"IPPoolList",` +
		`"items":[],"metadata":{"namespace":"a","name":"b"}}]}`))
	f.Add([]byte(`{"kind":"PartialObjectMetadataList","items":[{"metadata":{"namespace":"a","name":"b"}}]}`))
	f.Add([]byte(`{"kind":"IPPoolList","items":null}`))
	f.Add([]byte(`{"kind":"List","items":[1,null,{}],"items":[{"spec":{"range":"10.0.0.0/8"}}]}`))
	f.Add([]byte(`{"kind":"List","items":{}}`))
	for _, text := range []string{``, `{}`, `[]`, `null`, `"x"`, `{"kind": "Status", "items": []}`, `{"items": []}`,
		`{"kind": "List", "items": 5}`,
		`{"kind": "List", "items": []`, `{"kind": "List", "items": []} {}`, `<html>`, `{"metadata": {}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var pools []*ippool.Pool
		page, err := ippool.DecodeList[ippool.Pool](text, func(p *ippool.Pool) { pools = append(pools, p) })
		o, valid := asBuilt(text)
		var items []any
		there := false
		if valid && o.Object != nil {
			var raw any
			raw, there = o.Object["items"]
			list, isList := raw.([]any)
			items, there = list, there && (isList || raw == nil) && (o.GetKind() == "IPPoolList" || o.GetKind() == "List")
		}
		for _, item := range items {
			object, _ := item.(map[string]any)
			pool := &unstructured.Unstructured{Object: object}
			isPool := pool.GetKind() == "IPPool" || o.GetKind() == "IPPoolList" && pool.GetKind() == ""
			there = there && isPool && pool.GetNamespace() != "" && pool.GetName() != ""
		}
		if (err == nil) != there {
			t.Fatalf("%v of %q", err, text)
		}
		if err != nil {
			return
		}
		metadata, _ := o.Object["metadata"].(map[string]any)
		more, _ := metadata["continue"].(string)
		if len(pools) != len(items) || page.ResourceVersion != o.GetResourceVersion() || page.Continue != more {
			t.Fatalf("%d of %d pools, %+v of %s", len(pools), len(items), page, text)
		}
		for i, item := range items {
			want, err := ippool.Decode[ippool.Pool]([]byte(jsonOf(item)))
			if err != nil || !reflect.DeepEqual(pools[i], want) && jsonOf(pools[i]) != jsonOf(want) {
				t.Fatalf("item %d: %s\nwant %s, %v", i, jsonOf(pools[i]), jsonOf(want), err)
			}
		}
	})
}
