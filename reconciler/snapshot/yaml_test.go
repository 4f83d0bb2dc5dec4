package snapshot

import (
	_ "embed" // of kubectlList
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

//go:embed testdata/kubectl-list.yaml
var kubectlList string

func TestYAML_ListItemByItem(t *testing.T) {
	if _, ok := listAsJSON([]byte(kubectlList)); !ok {
		t.Fatal("what kubectl writes is left to the whole parser")
	}
	likeTheWhole(t, kubectlList)
	for _, text := range []string{"items:\n- a: |\n  b\n- {}\n", "items:\n- ? [a]\n  : b\n", "items:\n- <<: {a: b}\n",
		"kind: !!binary aa\nitems:\n- 0x1f: .inf\n", "items:\n- a: 09\n- a: 2026-11-20\n"} {
		if _, ok := listAsJSON([]byte(text)); ok {
			likeTheWhole(t, text)
		}
	}
}

func TestYAML_OtherLists(t *testing.T) {
	for what, text := range map[string]string{
		"a second document":                    kubectlList + "---\nkind: Pod\n",
		"an item that is indented":             strings.ReplaceAll(kubectlList, "\n", "\n  "),
		"items that are indented":              "kind: List\nitems:\n  - kind: Pod\n  - kind: Pod\n",
		"no items":                             "kind: List\nitems:\n",
		"items of another key":                 "kind: List\nother:\n- kind: Pod\n",
		"items twice":                          kubectlList + "items:\n- kind: Pod\n",
		"an item that is none":                 "kind: List\nitems:\n- kind: Pod\n- web\n",
		"an alias to another item":             "kind: List\nitems:\n- kind: &k Pod\n- kind: *k\n",
		"a quote over two items":               "kind: List\nitems:\n- kind: \"Pod\n- kind: Node\"\n",
		"a flow list over two items":           "kind: List\nitems:\n- kind: [Pod,\n- kind, Node]\n",
		"the end of a document in it":          "kind: List\nitems:\n- kind: Pod\n...\n- kind: Node\n",
		"an item that begins on the next line": "kind: List\nitems:\n- kind: Pod\n- \napiVersion: v1\n",
		"a tag on a line of its own":           "kind: List\nitems:\n- kind: Pod\n- !!map\napiVersion: v1\n",
		"a key that appears twice":             "kind: List\nitems:\n- kind: Pod\n  kind: Node\n",
		"a key beside them twice":              kubectlList + "kind: List\n",
		"a key of an item in the first row":    "kind: List\nitems:\n- kind: Pod\nname: \"a\n- kind: b\"\n",
		"one object":                           "kind: Pod\nmetadata:\n  name: web\n",
		"nothing":                              "",
	} {
		if got, ok := listAsJSON([]byte(text)); ok {
			t.Errorf("%s: read as %s", what, got)
		}
	}
}

// Lines at random, of which what is read item by item must be what the whole makes.
func TestYAML_LinesInAnyOrder(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(kubectlList), "\n")
	lines = append(lines, "- kind: \"Node", "  name: b\"", "- kind: 'Node", "  more: |", "  - x", "- - y", "-", "- ", "",
		"other:", "- &a b: c", "  d: *a", "...", "--- ", "- !!map", "- [a,", "  b]")
	read := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := "kind: List\nitems:\n- kind: Pod\n" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 0, 6).Draw(rt,
			"lines"), "\n") + "\n"
		if _, ok := listAsJSON([]byte(text)); ok {
			read++
			likeTheWhole(rt, text)
		}
	})
	if read == 0 {
		t.Error("none was read item by item")
	}
}

// Documents that are split are what the decoder makes of all of them.
func TestYAML_DocumentsOneByOne(t *testing.T) {
	scalar := "kind: List\nitems:\n- a: |\n    b\n"
	for _, text := range []string{"---\n" + kubectlList, kubectlList + "---\n" + scalar + "---\n" + kubectlList,
		scalar + "---\nkind: Pod\n---\n" + scalar, "---\n---\n# nothing\n---\n" + scalar,
		"%YAML 1.1\n---\nkind: Pod\n", scalar + "...\n---\nkind: Pod\n", "a: |+\n  b\n\n---\nc: d", ""} {
		got, err := asJSON("x.yaml", []byte(text))
		want, wholeErr := documentsAsJSON("x.yaml", []byte(text), maxNodes)
		if err != nil || wholeErr != nil || len(got) != len(want) {
			t.Fatalf("%q: %d documents, %v; the whole: %d, %v", text, len(got), err, len(want), wholeErr)
		}
		for i := range got {
			var a, b any
			if json.Unmarshal(got[i], &a) != nil || json.Unmarshal(want[i], &b) != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("%q: %s; the whole: %s", text, got[i], want[i])
			}
		}
	}
	for _, text := range []string{"a: \"b\n---\nc\"\n", "a: [\n---\n]\n"} {
		if got, err := asJSON("x.yaml", []byte(text)); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
	if _, err := asJSON("x.yaml", []byte("a: b\n---\na: b\na: c\n")); err == nil ||
		!strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), "begins in line 2") {
		t.Errorf("%v", err)
	}
}

func likeTheWhole(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	byItem, _ := listAsJSON([]byte(text))
	whole, err := documentsAsJSON("cluster.yaml", []byte(text), maxNodes)
	if err != nil || len(whole) != 1 {
		t.Fatalf("%q: item by item %s; the whole: %d documents, %v", text, byItem, len(whole), err)
	}
	var a, b any
	if err := json.Unmarshal(byItem, &a); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if err := json.Unmarshal(whole[0], &b); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%q:\nitem by item %s\nthe whole    %s", text, byItem, whole[0])
	}
}
