package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// hostile clears the screen, sets a color by an eight-bit control character, turns the direction of writing, and
// ends the line.
const hostile = "\x1b[2J\u009b31m\u202e\r\n\x07\x00"

// withHostile is a copy of the sample in which one text of an object, counted over all files, ends with another text.
// It is nil after the last one.
func withHostile(t *testing.T, n int, text string) *string {
	t.Helper()
	dir := copySample(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	check(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		check(t, err)
		documents := strings.Split(string(content), "\n---\n")
		for i := range documents {
			var object map[string]any
			check(t, yaml.Unmarshal([]byte(documents[i]), &object))
			if !makeHostile(object, &n, text) {
				continue
			}
			changed, err := json.Marshal(object)
			check(t, err)
			documents[i] = string(changed)
			write(t, file, strings.Join(documents, "\n---\n"))
			return &dir
		}
	}
	return nil
}

// makeHostile appends a text to the n-th string below a value, in the order of keys, and reports whether there is one.
func makeHostile(value any, n *int, text string) bool {
	each := func(child any, set func(any)) bool {
		s, isText := child.(string)
		if !isText {
			return makeHostile(child, n, text)
		}
		if *n--; *n >= 0 {
			return false
		}
		set(s + text)
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if each(v[k], func(s any) { v[k] = s }) {
				return true
			}
		}
	case []any:
		for i := range v {
			if each(v[i], func(s any) { v[i] = s }) {
				return true
			}
		}
	}
	return false
}

// forms are the commands that read a snapshot, in all forms of output.
func forms() (all [][]string) {
	for _, command := range [][]string{{"check", "--all"}, {"explain", "10.0.0.5"}, {"explain", "default/web-0"},
		{"explain", "worker-1"}, {"explain", "a" + hostile}, {"pools"}, {"run", "--dry-run"}, {"recover"}} {
		for _, output := range append(outputs(), "jsonpath={}") {
			all = append(all, append(command[:len(command):len(command)], "-o", output))
		}
	}
	return all
}

func checkBorder(t *testing.T, dir string, args []string) {
	t.Helper()
	_, out, errs := run(t, append(args[:len(args):len(args)], "--snapshot", dir)...)
	for _, text := range []string{out, errs} {
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%q prints %q", args, text[max(0, i-40):min(len(text), i+20)])
		}
	}
	if strings.Contains(strings.Join(args, " "), "-o yaml") {
		var d map[string]any
		if err := yaml.Unmarshal([]byte(out), &d); err != nil {
			t.Errorf("%q prints no YAML: %v", args, err)
		}
	}
}

// Whatever somebody wrote into an object or named a file, no command prints a control character.
func TestOutput_IsPrintable(t *testing.T) {
	count, step := 0, 1
	if testing.Short() {
		step = 10
	}
	for n := 0; ; n += step {
		dir := withHostile(t, n, hostile)
		if dir == nil {
			break
		}
		checkBorder(t, *dir, forms()[count%len(forms())])
		count++
	}
	if count*step < 300 {
		t.Errorf("only %d commands were tried", count)
	}
	dir := copySample(t)
	write(t, filepath.Join(dir, "a\x1b[2J\u202e.yaml"), "kind: List\nitems: [\n")
	for _, args := range forms() {
		checkBorder(t, dir, args)
	}
}

func FuzzOutputIsPrintable(f *testing.F) {
	f.Add(uint16(0), uint8(0), hostile)
	f.Add(uint16(100), uint8(9), "\u2028\U000e0001")
	f.Fuzz(func(t *testing.T, n uint16, form uint8, text string) {
		if dir := withHostile(t, int(n), text); dir != nil {
			checkBorder(t, *dir, forms()[int(form)%len(forms())])
		}
	})
}
