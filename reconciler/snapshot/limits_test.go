package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// A small archive may unpack to any size: what is not read counts, too.
func TestLimits_Archive(t *testing.T) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for range 3 {
		if err := w.WriteHeader(&tar.Header{Name: "zeros.log", Size: 10_000, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for most, fits := range map[int64]bool{int64(text.Len()): true, 20_000: false} {
		err := walkArchive("x.tar", bytes.NewReader(text.Bytes()), most)(func(entry) error { return nil })
		if (err == nil) != fits || err != nil && !errors.Is(err, errTooLarge) {
			t.Errorf("at most %d bytes: %v", most, err)
		}
	}
}

func packedText(t *testing.T, text []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// Some kilobytes of gzip are refused before they take memory, with the limit and what to do.
func TestAFewKilobytesDoNotTakeAllMemory(t *testing.T) {
	list, pod := "kind: List\nitems:", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b"},`+
		`"spec":{"containers":[{}`
	for what, c := range map[string]struct{ text, says string }{
		"a flow sequence":  {list + " [" + strings.Repeat("{a},", 2_000_000) + "0]\n", "nodes of YAML: export it as JSON"},
		"a block sequence": {"kind: Pod\na:\n" + strings.Repeat("- \n", 6_000_000), "nodes of YAML: export it as JSON"},
		"one item of a List": {list + "\n- a: [" + strings.Repeat("{a},", 2_000_000) + "0]\n",
			"nodes of YAML: export it as JSON"},
		"beside the items": {"a: [" + strings.Repeat("{a},", 2_000_000) + "0]\nkind: List\nitems:\n- a: b\n",
			"nodes of YAML: export it as JSON"},
		"items of YAML": {list + "\n" + strings.Repeat("- {}\n", 2_000_000), "nodes of YAML: export it as JSON"},
		"items of JSON": {`{"kind":"List","items":[{}` + strings.Repeat(",{}", 2_000_000) + "]}",
			"more than 1000000 objects: export them in several"},
		"JSON after JSON":   {strings.Repeat(`{"kind":""}`, 1_100_000), "more than 1000000 objects: export them in several"},
		"documents":         {strings.Repeat("---\na: b\n", 3_000_000), "nodes of YAML: export it as JSON"},
		"an object of 5 MB": {pod + strings.Repeat(",{}", 1_700_000) + "]}}", "Pod b/a has"},
	} {
		packed := packedText(t, []byte(c.text))
		if len(packed) > 100_000 {
			t.Fatalf("%s: %d bytes", what, len(packed))
		}
		var err error
		took := allocatedBy(func() { _, err = OpenStream("x.gz", bytes.NewReader(packed), time.Time{}, "") })
		if !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "x.gz is too large") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if took > 1<<30 {
			t.Errorf("%s: %d bytes of gzip took %d MiB", what, len(packed), took>>20)
		}
	}
}

// A pod with all its fields, and a pool of 10,000 entries, have far fewer nodes than an item of a List may have.
func TestLimits_FarFromAClusters(t *testing.T) {
	pod := "- kind: Pod\n  metadata:\n    managedFields:\n" +
		strings.Repeat("      f:name:\n        .: {}\n        f:value: {}\n", 200)
	var pool strings.Builder
	pool.WriteString("- kind: IPPool\n  spec:\n    allocations:\n")
	for i := range 10_000 {
		fmt.Fprintf(&pool, "      \"%d\":\n        id: %064d\n        ifname: net1\n        podref: tenant/web-%d\n", i, i, i)
	}
	for _, item := range []string{pod, pool.String()} {
		if nodes := yamlNodes([]byte(item)); nodes*5 > maxNodes/itemsAtOnce {
			t.Errorf("%.20q has %d nodes of %d", item, nodes, maxNodes/itemsAtOnce)
		}
	}
}

// No text makes more nodes than are counted before it is parsed.
func TestLimits_YAMLNodes(t *testing.T) {
	var count func(n *yaml.Node) int
	count = func(n *yaml.Node) int {
		sum := 1
		for _, c := range n.Content {
			sum += count(c)
		}
		return sum
	}
	parts := []string{"a", "b", "[", "]", "{", "}", ",", ":", "-", "?", " ", "\n", "\r", "\u0085", "\u2028", "\t", "\"a\"",
		"\"a\":", "a: ", "- ", "? ", ": ", "\n- ", "\n  ", "#", "*a", "&a ", "!!str ", "|\n", "'"}
	for _, c := range []struct{ head, part, end string }{{"[", "{a},", "]"}, {"[", `"a":b,`, "]"}, {"{", "a,", "}"},
		{"", "- - - a\n", ""}, {"x:\n", "- ? a\n", ""}, {"x:\n", " -\u0085", ""},
		{"", "? ", ""}, {"x:\n", "- ? a: b\n", ""}, {"x:\n", "- ? ? a: b\n", ""}, {"", "? a\n: ? b\n", ""}} {
		text := c.head + strings.Repeat(c.part, 1000) + c.end
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Errorf("%q: %v", c.part, err)
		}
		if has, counted := count(&doc), yamlNodes([]byte(text)); has < 900 || has > counted+3 {
			t.Errorf("%q: %d nodes, and %d are counted", c.part, has, counted)
		}
	}
	parsed := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := "x:\n" + strings.Repeat(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 6).Draw(rt, "parts"), ""),
			50)
		for _, text := range []string{text, "[" + strings.TrimPrefix(text, "x:\n") + "]",
			"- {" + strings.TrimPrefix(text, "x:\n") + "}"} {
			var doc yaml.Node
			if yaml.NewDecoder(strings.NewReader(text)).Decode(&doc) != nil {
				continue
			}
			parsed++
			if has, counted := count(&doc), yamlNodes([]byte(text)); has > counted+3 {
				rt.Fatalf("%q has %d nodes, and %d are counted", text, has, counted)
			}
		}
	})
	if parsed == 0 {
		t.Error("none was parsed")
	}
}

func TestLimits_Kept(t *testing.T) {
	f := &Snapshot{seenIn: map[string]string{}, seen: map[string]bool{},
		kept: maxKept - perObject - len("x.json") - len("Pod b a") - 2}
	o := &object{kind: "Pod", text: []byte("{}"), path: "x.json"}
	o.Namespace, o.Name = "b", "a"
	if err := f.charge(o); err != nil {
		t.Error(err)
	}
	if err := f.charge(o); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	before := f.kept
	err := f.add(&object{path: "x.json"}) // it has no kind, and a message says so
	if grown := f.kept - before; err != nil || len(f.observed.Unreadable) != 1 || grown != len(f.observed.Unreadable[0]) {
		t.Errorf("%d bytes for %q, %v", grown, f.observed.Unreadable, err)
	}
}

func allocatedBy(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Aliases may stand for any amount, and nesting takes a stack.
func TestYAML_AliasesAndDeepNesting(t *testing.T) {
	for what, text := range map[string]string{
		"an alias":               "a: &a x\nb: *a\n",
		"an alias of itself":     "a: &a {b: *a}\n",
		"an alias as a key":      "a: &a x\n*a : b\n",
		"an alias in an item":    "kind: List\nitems:\n- &a {b: c}\n- *a\n",
		"nested deeply":          strings.Repeat("[", 100_000),
		"nested deeply in lines": "a:\n" + strings.Repeat("- ", 20_000),
	} {
		if documents, err := asJSON("x.yaml", []byte(text)); err == nil {
			t.Errorf("%s: %d documents", what, len(documents))
		}
	}
}
