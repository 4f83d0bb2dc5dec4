package ippool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"
)

const checkedPool = `{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
	"metadata": {"namespace": "kube-system", "name": "pool", "uid": "u", "resourceVersion": "41", "annotations": {"a": "b"}},
	"spec": {"range": "10.0.0.0/24", "later": {"x": [1]}, "allocations": {
		"5": {"id": "c5", "podref": "default/a", "ifname": "net1"},
		"7": {"id": "c7", "podref": "default/b", "ifname": "net1"},
		"~1": {"id": "odd", "podref": "default/b"},
		"a/b": {"id": "odd", "podref": "default/b"}}}}`

// The outline that a patch is checked against is not the whole pool. Whatever a
// patch does: it passes only if on the whole pool, too, it does what was meant.
func TestAPatchThatPassesDoesWhatWasMeantToTheWholePool(t *testing.T) {
	p, err := Decode[Pool]([]byte(checkedPool))
	if err != nil {
		t.Fatal(err)
	}
	right, err := RemovePatch(p, []Allocation{*p.Find("5")})
	if err != nil {
		t.Fatal(err)
	}
	var whole, ops []any
	if err := json.Unmarshal(right, &whole); err != nil {
		t.Fatal(err)
	}
	path := rapid.SampledFrom([]string{"", "/", "/spec", "/metadata", "/metadata/resourceVersion", "/metadata/annotations",
		"/metadata/annotations/a", "/spec/range", "/spec/later",
		"/spec/later/x/0", "/spec/allocations", "/spec/allocations/5", "/spec/allocations/7", "/spec/allocations/7/id",
		"/spec/allocations/7/new", "/spec/allocations/8",
		"/spec/allocations/~1", "/spec/allocations/~01", "/spec/allocations/a~1b", "/spec/allocations/a/b", "/status",
		"/spec/allocations/-", "/spec/allocations/05"})
	value := rapid.SampledFrom([]any{nil, "41", "x", 0, true, map[string]any{}, map[string]any{"id": "c7",
		"podref": "default/b", "ifname": "net1"}, map[string]any{"id": "c5", "podref": "default/a", "ifname": "net1"}})
	if err := check(p, right, change{gone: map[string]bool{"5": true}}); err != nil {
		t.Fatalf("the patch alone does not pass: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		ops = append([]any{}, whole...)
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			op := map[string]any{"op": rapid.SampledFrom([]string{"test", "add", "remove", "replace", "move", "copy"}).Draw(t,
				"op"), "path": path.Draw(t, "path")}
			switch op["op"] {
			case "test", "add", "replace":
				op["value"] = value.Draw(t, "value")
			case "move", "copy":
				op["from"] = path.Draw(t, "from")
			}
			at := rapid.IntRange(0, len(ops)).Draw(t, "at")
			ops = append(ops[:at:at], append([]any{op}, ops[at:]...)...)
		}
		patch, err := json.Marshal(ops)
		if err != nil {
			t.Fatal(err)
		}
		if check(p, patch, change{gone: map[string]bool{"5": true}}) != nil {
			return
		}
		got, err := apply(patch)
		if err != nil {
			return // the API server would refuse it
		}
		if want, err := apply(right); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s passes, and gives\n%s", patch, got)
		}
	})
}

func apply(patch []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return decoded.Apply([]byte(checkedPool))
}

func TestAPatchThatRemovesTheWrongEntryOrMoreDoesNotPass(t *testing.T) {
	p, err := Decode[Pool]([]byte(checkedPool))
	if err != nil {
		t.Fatal(err)
	}
	for _, ops := range []string{
		`{"op": "remove", "path": "/spec/allocations/7"}`,
		`{"op": "remove", "path": "/spec/allocations/5"}, {"op": "remove", "path": "/spec/allocations/~01"}`,
		`{"op": "remove", "path": "/spec/allocations"}`,
		`{"op": "remove", "path": "/spec/allocations/5"}, {"op": "add", "path": "/metadata/finalizers", "value": []}`,
		`{"op": "move", "from": "/spec/allocations/5", "path": "/spec/allocations/6"}`,
		`{"op": "copy", "from": "/spec/allocations/a~1b", "path": "/spec/allocations/7"}, {"op": "remove", "path": ` +
			`"/spec/allocations/5"}`,
		`{"op": "replace", "path": "/metadata/resourceVersion", "value": "42"}, {"op": "remove", "path": ` +
			`"/spec/allocations/5"}`,
		``,
		`{"op": "replace", "path": "/spec/allocations", "value": {"7": {"id": "c7", "podref": "default/b", "ifname": ` +
			`"net1"}, "~1": {"id": "odd", "podref": "default/b"}, "a/b": {"id": "odd", "podref": "default/b"}}}`,
	} {
		if check(p, fmt.Appendf(nil, "[%s]", ops), change{gone: map[string]bool{"5": true}}) == nil {
			t.Errorf("%s passes", ops)
		}
	}
}
