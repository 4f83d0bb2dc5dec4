package snapshot_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func open2(t *testing.T, files map[string]string) (*snapshot.Snapshot, error) {
	t.Helper()
	return snapshot.Open(folder(t, files), noon, home)
}

// The error names the file and its defect. A part of a snapshot is never judged.
func TestRefuse_IncompleteFolder(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		says             []string
	}{
		{"broken YAML", "x.yaml", "kind: [", []string{"x.yaml", "is not YAML"}},
		{"a tab for indentation", "x.yaml", "kind:\n\tname: x", []string{"x.yaml", "is not YAML"}},
		{"a broken second document", "x.yaml", "kind: Pod\nmetadata: {name: x}\n---\n}", []string{"x.yaml", "is not YAML"}},
		{"a list", "x.yaml", "- kind: Pod", []string{"x.yaml", "not a Kubernetes object"}},
		{"a List with an item that is none", "x.yaml", "kind: List\nitems:\n- kind: Pod\n  metadata: {name: x}\n- text",
			[]string{"x.yaml", "items[1]", "not a Kubernetes object"}},
		{"a key twice", "x.yaml",
			"kind: IPPool\nmetadata: {name: x}\nspec:\n  allocations:\n    \"5\": {id: a}\n    \"5\": {id: b}\n",
			[]string{"x.yaml", "line 6", `"5"`, "twice"}},
		{"a key twice, once quoted", "x.yaml", "kind: IPPool\nspec:\n  allocations:\n    5: {id: a}\n    \"5\": {id: b}\n",
			[]string{"x.yaml", "line 5", "twice"}},
		{"a key twice in a List", "x.yaml", "kind: List\nitems:\n- kind: Pod\n  kind: Node\n",
			[]string{"x.yaml", "line 4", `"kind"`, "twice"}},
		{"an alias of itself", "x.yaml", "a: &a\n  b: *a\nkind: Pod\n", []string{"x.yaml"}},
		{"broken JSON", "x.json", `{"kind":`, []string{"x.json", "is not JSON"}},
		{"YAML in a file called .json", "x.json", `kind: Pod`, []string{"x.json", "is not JSON"}},
		{"a JSON array", "x.json", `[{"kind":"Pod"}]`, []string{"x.json", "one JSON object", "List"}},
		{"something behind a JSON object", "x.json", `{"kind":"Pod"} }`, []string{"x.json"}},
		{"a JSON List with an item that is none", "x.json", `{"kind":"List","items":[{"kind":"Pod"},5]}`,
			[]string{"x.json", "items[1]", "not a Kubernetes object"}},
		{"a key twice in JSON", "x.json",
			`{"kind":"IPPool","spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"a"},"5":{"id":"b"}}}}`, []string{"x.json",
				"duplicate field"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open2(t, map[string]string{"pool.yaml": onePool, c.file: c.text})
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestRefuse_WithoutIPPool(t *testing.T) {
	for title, files := range map[string]map[string]string{
		"an empty folder":        {},
		"no YAML or JSON at all": {"a.txt": "x"},
		"a pod only":             {"pod.yaml": "kind: Pod\nmetadata: {name: a}\n"},
		"an empty List":          {"pools.yaml": "kind: List\napiVersion: v1\nitems: []\n"},
		"an empty file":          {"pools.yaml": ""},
	} {
		_, err := open2(t, files)
		if err == nil || !strings.Contains(err.Error(), "no IPPool") ||
			!strings.Contains(err.Error(), "kubectl get ippools") {
			t.Errorf("%s: %v", title, err)
		}
	}
}
