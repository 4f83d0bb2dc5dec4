package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/internal/rawjson"
)

// file is one file of a snapshot in the form in which it can be written again:
// YAML as nodes, with comments and order; JSON as values, numbers verbatim.
type file struct {
	path    string
	mode    os.FileMode
	yaml    []*yaml.Node // documents
	compact bool         // sequences are not indented, as kubectl writes them
	dashes  bool         // the first document begins with a line of dashes
	aliased bool         // it has aliases: what stands once may belong to several objects
	json    any
	indent  string
	escaped bool // <, > and & are escaped, as kubectl writes them
	changed bool
}

// object is an object of a snapshot and where it stands in its file.
type object struct {
	*unstructured.Unstructured
	file   *file
	node   *yaml.Node     // in a YAML file
	value  map[string]any // in a JSON file
	parent func()         // removes it from what contains it
	lean   []byte         // the JSON that is read of it, where that is not the whole object
}

// readFile reads one file and its objects; a List counts as its items.
func readFile(path string) (*file, []*object, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read snapshot: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read snapshot: %w", err)
	}
	f := &file{path: path, mode: info.Mode().Perm()}
	if trimmed := bytes.TrimSpace(text); filepath.Ext(path) == ".json" || len(trimmed) > 0 && trimmed[0] == '{' {
		objects, err := f.readJSON(text)
		return f, objects, err
	}
	objects, err := f.readYAML(text)
	return f, objects, err
}

func (f *file) readYAML(text []byte) ([]*object, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	f.dashes = bytes.HasPrefix(text, []byte("---\n"))
	var objects []*object
	for {
		doc := &yaml.Node{}
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not YAML: %v", f.path, err)
		}
		untagMerge(doc)
		f.yaml = append(f.yaml, doc)
		f.compact, f.aliased = f.compact || isCompact(doc), f.aliased || hasAlias(doc)
		if len(doc.Content) == 0 {
			continue
		}
		root := doc.Content[0]
		if root.Kind != yaml.MappingNode {
			if root.Tag == "!!null" {
				continue
			}
			return nil, fmt.Errorf("%s, line %d: a document is not a Kubernetes object", f.path, root.Line)
		}
		if items := child(root, "items"); items != nil && items.Kind == yaml.SequenceNode {
			for _, item := range items.Content {
				o, err := f.yamlObject(item, func() { items.Content = without(items.Content, item) })
				if err != nil {
					return nil, err
				}
				o.kindOf(scalar(child(root, "kind")), scalar(child(root, "apiVersion")))
				objects = append(objects, o)
			}
			continue
		}
		o, err := f.yamlObject(root, func() { f.yaml = without(f.yaml, doc) })
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
}

func (f *file) yamlObject(n *yaml.Node, remove func()) (*object, error) {
	v, err := plain(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s, line %d: an item is not a Kubernetes object", f.path, n.Line)
	}
	return &object{Unstructured: &unstructured.Unstructured{Object: m}, file: f, node: n, parent: remove}, nil
}

func (f *file) readJSON(text []byte) ([]*object, error) {
	if objects, ok := f.readLean(text); ok {
		return objects, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&f.json); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %v", f.path, err)
	}
	root, ok := f.json.(map[string]any)
	if _, err := dec.Token(); !ok || !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: must hold one JSON object, a List for several", f.path)
	}
	if twice := repeated(rawjson.New(text)); twice != "" {
		return nil, fmt.Errorf("%s: the key %q stands twice in an object", f.path, twice)
	}
	f.indent, f.escaped = indentOf(text), bytes.Contains(text, []byte(`\u003`)) || bytes.Contains(text, []byte(`\u0026`))
	items, ok := root["items"].([]any)
	if !ok {
		return []*object{f.jsonObject(root, func() { f.json = nil })}, nil
	}
	var objects []*object
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: items[%d] is not a Kubernetes object", f.path, i)
		}
		o := f.jsonObject(m, func() {
			var rest []any
			for _, x := range root["items"].([]any) {
				if y, ok := x.(map[string]any); !ok || !sameMap(y, m) {
					rest = append(rest, x)
				}
			}
			root["items"] = append([]any{}, rest...)
		})
		kind, _ := root["kind"].(string)
		version, _ := root["apiVersion"].(string)
		o.kindOf(kind, version)
		objects = append(objects, o)
	}
	return objects, nil
}

// kindOf gives an item of a typed list, as PodList, the kind that it leaves out.
func (o *object) kindOf(list, apiVersion string) {
	if kind, ok := strings.CutSuffix(list, "List"); ok && kind != "" && o.GetKind() == "" {
		o.SetKind(kind)
		o.SetAPIVersion(apiVersion)
	}
}

func (f *file) jsonObject(m map[string]any, remove func()) *object {
	return &object{Unstructured: &unstructured.Unstructured{Object: numbers(m).(map[string]any)}, file: f, value: m, parent: remove}
}

// write replaces the file as a whole, or removes it where nothing is left in it.
func (f *file) write() error {
	var text bytes.Buffer
	switch {
	case f.json == nil && len(f.yaml) == 0:
		// It may never have been written: created and deleted in one hold.
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case f.json != nil:
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(f.escaped)
		enc.SetIndent("", f.indent)
		if err := enc.Encode(f.json); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	default:
		if f.dashes {
			text.WriteString("---\n")
		}
		enc := yaml.NewEncoder(&text)
		enc.SetIndent(2)
		if f.compact {
			enc.CompactSeqIndent()
		}
		for _, doc := range f.yaml {
			if err := enc.Encode(doc); err != nil {
				return fmt.Errorf("write %s: %w", f.path, err)
			}
		}
		if err := enc.Close(); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return replaceFile(f.path, text.Bytes(), f.mode)
}

// replaceFile writes beside the file and renames: it is never half there.
func replaceFile(link string, text []byte, mode os.FileMode) error {
	path, err := filepath.EvalSymlinks(link) // a link stays one
	if errors.Is(err, fs.ErrNotExist) {
		path, err = link, nil
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", link, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ip-reconcile-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), mode)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// maxAliased is how many nodes aliases may stand for in one object: a few
// nested ones can stand for more than fits into any machine.
const maxAliased = 100_000

// plain turns a YAML node into the values that JSON has. Keys and times stay
// the text they are: an allocation's key "09" is not the number nine.
func plain(n *yaml.Node) (any, error) {
	budget := maxAliased
	return expand(n, 0, false, &budget)
}

func expand(n *yaml.Node, depth int, aliased bool, budget *int) (any, error) {
	if aliased {
		*budget--
	}
	if depth > 100 || *budget < 0 {
		return nil, fmt.Errorf("line %d: nested too deeply, or too much behind aliases", n.Line)
	}
	plain := func(n *yaml.Node) (any, error) { return expand(n, depth+1, aliased, budget) }
	switch n.Kind {
	case yaml.AliasNode:
		return expand(n.Alias, depth+1, true, budget)
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			v, err := plain(c)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := plain(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			if _, twice := out[n.Content[i].Value]; twice {
				return nil, fmt.Errorf("line %d: key %q stands twice", n.Content[i].Line, n.Content[i].Value)
			}
			out[n.Content[i].Value] = v
		}
		return out, nil
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i, nil
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f, nil
		}
	}
	return n.Value, nil
}

// numbers is a copy with the number types that unstructured objects have.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = numbers(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = numbers(x)
		}
		return out
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
