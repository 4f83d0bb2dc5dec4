package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// file is one file of a snapshot, from when it is to be changed on in the form in
// which it can be written again: YAML as nodes, with comments and order; JSON as
// values, numbers verbatim.
type file struct {
	dir     *disk
	name    string // in the folder
	path    string // for messages
	mode    os.FileMode
	isJSON  bool
	loaded  []*stored    // its objects, in the order in which they were read
	yaml    []*yaml.Node // documents
	compact bool         // sequences are not indented, as kubectl writes them
	dashes  bool         // the first document begins with a line of dashes
	aliased bool         // it has aliases: one node may belong to several objects
	json    any
	indent  string
	escaped bool // <, > and & are escaped, as kubectl writes them
	changed bool
}

// stored is an object in a file that can be written again.
type stored struct {
	node    *yaml.Node     // in a YAML file
	in      *yaml.Node     // what contains it there: a document, or the items of a List
	value   map[string]any // in a JSON file
	removed bool           // from when the file is written the next time
}

// inFile is the object where it is to be changed. Most files never are, so that
// only then they are read in this form.
func (o *object) inFile() (*stored, error) {
	f := o.file
	if f.loaded == nil {
		if err := f.load(); err != nil {
			return nil, err
		}
	}
	if f.aliased {
		return nil, errAliased
	}
	if o.at < len(f.loaded) && !f.loaded[o.at].removed {
		u, err := f.loaded[o.at].whole()
		if err == nil && u.GetNamespace() == o.namespace && u.GetName() == o.name && u.GetUID() == types.UID(o.uid) {
			return f.loaded[o.at], nil
		}
	}
	return nil, errors.New("the file has changed since it was read")
}

// whole is all of the object.
func (s *stored) whole() (*unstructured.Unstructured, error) {
	if s.node == nil {
		return &unstructured.Unstructured{Object: numbers(s.value).(map[string]any)}, nil
	}
	v, err := plain(s.node)
	if err != nil {
		return nil, err
	}
	m, _ := v.(map[string]any)
	return &unstructured.Unstructured{Object: m}, nil
}

func (f *file) load() error {
	text, mode, err := f.dir.read(f.name)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	f.mode = mode
	f.loaded, f.yaml, f.json = nil, nil, nil
	if f.isJSON {
		return f.loadJSON(text)
	}
	return f.loadYAML(text)
}

func (f *file) loadYAML(text []byte) error {
	f.dashes = bytes.HasPrefix(text, []byte("---\n"))
	if yamlNodes(text) > maxNodesWritten {
		return fmt.Errorf("%s %w: a file that is written may have %d nodes of YAML: "+
			"give the pools files of their own", f.path, errTooLarge, maxNodesWritten)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := &yaml.Node{}
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is not YAML: %w", f.path, err)
		}
		untagMerge(doc)
		f.yaml = append(f.yaml, doc)
		f.compact, f.aliased = f.compact || isCompact(doc), f.aliased || hasAlias(doc)
		if isEmpty(doc) {
			continue
		}
		items := child(doc.Content[0], "items")
		if items == nil || items.Kind != yaml.SequenceNode {
			f.loaded = append(f.loaded, &stored{node: doc.Content[0], in: doc})
			continue
		}
		for _, item := range items.Content {
			f.loaded = append(f.loaded, &stored{node: item, in: items})
		}
	}
}

func (f *file) loadJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&f.json); err != nil {
		return fmt.Errorf("%s is not JSON: %w", f.path, err)
	}
	f.indent, f.escaped = indentOf(text), bytes.Contains(text, []byte(`\u003`)) || bytes.Contains(text, []byte(`\u0026`))
	root, _ := f.json.(map[string]any)
	items, ok := root["items"].([]any)
	if !ok {
		f.loaded = []*stored{{value: root}}
		return nil
	}
	for _, item := range items {
		m, _ := item.(map[string]any)
		f.loaded = append(f.loaded, &stored{value: m})
	}
	return nil
}

// sweep takes what was removed out of what contains it, once for all of it.
func (f *file) sweep() {
	gone := map[*yaml.Node]bool{} // objects, and documents that are one
	within := map[*yaml.Node]bool{}
	left, removed := []any{}, false
	for _, s := range f.loaded {
		switch {
		case !s.removed:
			left = append(left, s.value)
		case s.node == nil:
			removed = true
		case s.in.Kind == yaml.DocumentNode:
			gone[s.in] = true
		default:
			gone[s.node], within[s.in] = true, true
		}
	}
	isGone := func(n *yaml.Node) bool { return gone[n] }
	f.yaml = slices.DeleteFunc(f.yaml, isGone)
	for items := range within {
		items.Content = slices.DeleteFunc(items.Content, isGone)
	}
	root, _ := f.json.(map[string]any)
	_, isList := root["items"].([]any)
	switch {
	case removed && isList:
		root["items"] = left
	case removed:
		f.json = nil
	}
}

// write replaces the file as a whole, or removes it where nothing is left in it.
func (f *file) write() error {
	f.sweep()
	var text bytes.Buffer
	switch {
	case f.json == nil && len(f.yaml) == 0:
		// It may never have been written: created and deleted in one hold.
		if err := f.dir.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", f.path, f.dir.explained(f.name, err))
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
	if err := f.dir.replace(f.name, text.Bytes(), f.mode); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
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
