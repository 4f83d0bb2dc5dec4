package snapshot_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// clusterGen draws a List as kubectl gets it: pools with odd keys, and pods
// with texts of every kind between them.
func clusterGen(text *rapid.Generator[string]) *rapid.Generator[map[string]any] {
	key := rapid.OneOf(
		rapid.StringMatching(`[0-9]{1,3}`),
		rapid.SampledFrom([]string{"18446463705355360228", "-1", "+7", "null", "true", "~", "1e3", "0x1f", "2026-11-20", "a: b", "#", "'", "\"", "", " ", "*x", "&x", "!x", "é", "=", "- x", "?", "1_000", "0o17", "1:30"}),
	)
	return rapid.Custom(func(t *rapid.T) map[string]any {
		entry := rapid.Custom(func(t *rapid.T) any {
			e := map[string]any{"id": text.Draw(t, "id"), "podref": "default/a"}
			if rapid.Bool().Draw(t, "has ifname") {
				e["ifname"] = text.Draw(t, "ifname")
			}
			return e
		})
		pod := map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"namespace": "default", "name": "a", "annotations": map[string]any{"note": text.Draw(t, "note")}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "args": []any{text.Draw(t, "arg"), text.Draw(t, "arg")}}}, "none": nil, "priority": rapid.Int64().Draw(t, "n"), "empty": map[string]any{}},
		}
		entries := map[string]any{}
		for k, e := range rapid.MapOfN(key, entry, 1, 8).Draw(t, "entries") {
			entries[k] = e
		}
		pool := map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
			"metadata": map[string]any{"namespace": "kube-system", "name": "p", "resourceVersion": "7"},
			"spec":     map[string]any{"range": "fd00::/64", "allocations": entries, "later": text.Draw(t, "later")},
		}
		return map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{pod, pool, pod}, "metadata": map[string]any{"resourceVersion": ""}}
	})
}

// released is the cluster without these entries, which is what kubectl would
// have written had they never been.
func released(cluster map[string]any, keys []string) map[string]any {
	text, _ := json.Marshal(cluster)
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	entries := out["items"].([]any)[1].(map[string]any)["spec"].(map[string]any)["allocations"].(map[string]any)
	for _, key := range keys {
		delete(entries, key)
	}
	// Numbers that float64 cannot hold come from the original.
	for _, i := range []int{0, 2} {
		out["items"].([]any)[i] = cluster["items"].([]any)[i]
	}
	return out
}

// checkRelease writes the cluster, releases what can be released, and compares
// the file with what would have been written of the cluster without it.
func checkRelease(t *rapid.T, dir, file string, cluster map[string]any, marshal func(any) ([]byte, error), without func(t *rapid.T, before string, keys []string) string) {
	before, err := marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	write(t, path, string(before))
	defer os.Remove(path)
	f := open(t, dir)
	var keys []string
	for _, a := range poolNamed(t, observe(t, f), "p").Allocations {
		if a.Problem == "" && rapid.Bool().Draw(t, "release "+a.Key) {
			keys = append(keys, a.Key)
		}
	}
	release(t, f, "p", keys...)
	same(t, "the file", read(t, path), without(t, string(before), keys))
}

// withoutLines is kubectl's YAML without the lines of these entries. An entry
// begins six columns in and goes on as long as lines are further in, or empty.
func withoutLines(t *rapid.T, text string, keys []string) string {
	head, rest, _ := strings.Cut(text, "    allocations:\n")
	var blocks []string
	for _, line := range strings.SplitAfter(rest, "\n") {
		switch {
		case strings.HasPrefix(line, "      ") && line[6] != ' ':
			blocks = append(blocks, line)
		case strings.HasPrefix(line, "       ") || line == "\n":
			blocks[len(blocks)-1] += line
		default:
			kept := ""
			for _, block := range blocks {
				var entry map[string]any
				if err := yaml.Unmarshal([]byte(block), &entry); err != nil || len(entry) != 1 {
					t.Fatalf("test data: %q is %v, %v", block, entry, err)
				}
				if key := slices.Collect(maps.Keys(entry))[0]; !slices.Contains(keys, key) {
					kept += block
				}
			}
			_, tail, _ := strings.Cut(text, strings.Join(blocks, ""))
			if kept == "" {
				return head + "    allocations: {}\n" + tail
			}
			return head + "    allocations:\n" + kept + tail
		}
	}
	t.Fatalf("test data: no end of the allocations in\n%s", text)
	return ""
}

// kubectl's printer is sigs.k8s.io/yaml. Short texts only: for those that it
// breaks over several lines see TestLongLinesThatKubectlBrokeStayBroken.
func TestAReleaseFromKubectlsYAMLLeavesWhatKubectlWouldWriteWithoutIt(t *testing.T) {
	dir := t.TempDir()
	text := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9/ .:#'"%@!&*?|<>=~{}\[\],-]{0,20}`),
		rapid.SampledFrom([]string{"", "true", "yes", "null", "1", "1.0", "0x1", "2026-11-20", "12:30", "a\nb", "a\nb\n", "\n", " a", "a ", "é", "😀", "\t", "a\tb", "~", "-", "---", "...", "%", "#x", "a #b", "a: b", "[", "{", "<<"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		checkRelease(t, dir, "all.yaml", clusterGen(text).Draw(t, "cluster"), func(v any) ([]byte, error) { return yaml.Marshal(v) }, withoutLines)
	})
}

// Whatever the texts: the values of the other objects are the same afterwards.
func TestAReleaseFromYAMLKeepsEveryValueOfEveryOtherObject(t *testing.T) {
	dir := t.TempDir()
	// YAML has no control characters; long texts are broken, spaces and all.
	printable := rapid.StringOf(rapid.OneOf(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S), rapid.SampledFrom([]rune(" \n\t"))))
	rapid.Check(t, func(t *rapid.T) {
		cluster := clusterGen(printable).Draw(t, "cluster")
		before, err := yaml.Marshal(cluster)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "all.yaml")
		write(t, path, string(before))
		f := open(t, dir)
		var keys []string
		for _, a := range poolNamed(t, observe(t, f), "p").Allocations {
			if a.Problem == "" {
				keys = append(keys, a.Key)
			}
		}
		if len(keys) == 0 {
			t.Skip("nothing to release")
		}
		release(t, f, "p", keys...)
		got, err := yaml.YAMLToJSON([]byte(read(t, path)))
		if err != nil {
			t.Fatalf("the file is not YAML any more: %v", err)
		}
		canonical, err := yaml.Marshal(released(cluster, keys))
		if err != nil {
			t.Fatal(err)
		}
		want, err := yaml.YAMLToJSON(canonical)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the values", string(got), string(want))
	})
}

func TestAReleaseFromKubectlsJSONLeavesWhatKubectlWouldWriteWithoutIt(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		cluster := clusterGen(rapid.String()).Draw(t, "cluster")
		marshal := func(v any) ([]byte, error) {
			var out bytes.Buffer
			enc := json.NewEncoder(&out)
			enc.SetEscapeHTML(false) // TestAngleBracketsThatKubectlEscapedStayEscaped
			enc.SetIndent("", "    ")
			err := enc.Encode(v)
			return out.Bytes(), err
		}
		// The keys' order is fixed in JSON, so that the rest can be rewritten.
		checkRelease(t, dir, "all.json", cluster, marshal, func(t *rapid.T, _ string, keys []string) string {
			out, err := marshal(released(cluster, keys))
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		})
	})
}
