package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
)

// asJSON converts the documents of a YAML file to JSON. path is for messages.
func asJSON(path string, text []byte) (documents [][]byte, err error) {
	for start, end, parts := 0, 0, 0; start < len(text); start, parts = end, parts+1 {
		end = len(text)
		// No scalar has such a line. The limit is for the kilobytes that a parser takes for each part.
		if at := bytes.Index(text[start:], []byte("\n---\n")); at >= 0 && text[0] != '%' && parts < 50_000 {
			end = start + at + 1
		}
		if list, ok := listAsJSON(text[start:end]); ok {
			documents = append(documents, list)
			continue
		}
		part, err := documentsAsJSON(path, text[start:end], maxNodes)
		if err != nil && start > 0 {
			return nil, fmt.Errorf("%w (in what begins in line %d)", err, 1+bytes.Count(text[:start], []byte("\n")))
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, part...)
	}
	return documents, nil
}

// documentsAsJSON converts the documents of a text to JSON. maxNodes limits their nodes together.
func documentsAsJSON(path string, text []byte, maxNodes int) (documents [][]byte, err error) {
	if yamlNodes(text) > maxNodes {
		return nil, fmt.Errorf("%s %w: it is not a List as kubectl writes it, and has more than %d nodes of YAML: "+
			"export it as JSON, or in several files", path, errTooLarge, maxNodes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := &yaml.Node{}
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not YAML: %w", path, err)
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" { // nothing but comments
			continue
		}
		root := doc.Content[0]
		if root.Kind != yaml.MappingNode && root.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("%s, line %d: a document is not a Kubernetes object", path, root.Line)
		}
		v, err := valueOf(root, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		d, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		documents = append(documents, d)
	}
}

// listAsJSON converts a List as kubectl and oc write it to JSON. It parses item by item, on all cores: a parser's nodes
// are twenty times larger than the text. It returns false for any other text, and for a text with an error. An item
// begins with a key, and its other lines are indented. If one is not, a part is not an object.
func listAsJSON(text []byte) ([]byte, bool) {
	const begin, next = "items:\n- ", "\n- "
	text = bytes.TrimSuffix(text, []byte("\n"))
	at := bytes.Index(text, []byte(begin))
	hasLine := func(begin string) bool { return bytes.Contains(text, []byte("\n"+begin)) }
	if at < 0 || at > 0 && text[at-1] != '\n' || hasLine("---") || hasLine("...") {
		return nil, false
	}
	list := text[at+len(begin):]
	end := len(list)
	if kind := bytes.LastIndex(list, []byte("\nkind: ")); kind >= 0 {
		end = kind
	}
	items := bytes.Split(list[:end], []byte(next))
	beginsWithKey := func(item []byte) bool { return len(item) > 0 && unicode.IsLetter(rune(item[0])) }
	if len(items) > maxObjects || slices.ContainsFunc(items, func(item []byte) bool { return !beginsWithKey(item) }) {
		return nil, false
	}
	parsed := make([][]byte, len(items))
	var g errgroup.Group
	g.SetLimit(min(runtime.GOMAXPROCS(0), itemsAtOnce))
	for i := range items {
		g.Go(func() (err error) {
			item := append([]byte("  "), items[i]...) // in place of its dash
			parsed[i], err = objectAsJSON(append(item, '\n'), maxNodes/itemsAtOnce)
			return err
		})
	}
	out, err := objectAsJSON(append(append(bytes.Clone(text[:at]), list[end:]...), '\n'), maxNodes)
	if g.Wait() != nil || err != nil || len(out) < 3 || bytes.Contains(out, []byte(`"items"`)) { // {}
		return nil, false
	}
	out = append(out[:len(out)-1], `,"items":[`...)
	out = append(out, bytes.Join(parsed, []byte(","))...)
	return append(out, "]}"...), true
}

func objectAsJSON(text []byte, maxNodes int) ([]byte, error) {
	documents, err := documentsAsJSON("", text, maxNodes)
	if err != nil || len(documents) != 1 {
		return nil, cmp.Or(err, errors.New("not one object"))
	}
	return documents[0], nil
}

// valueOf returns the value of a YAML node in JSON. Keys and times stay text: an allocation's key "09" is not the
// number nine. Aliases are errors: a few of them may stand for any amount of data, and exports have none.
func valueOf(n *yaml.Node, depth int) (any, error) {
	if depth > 100 {
		return nil, fmt.Errorf("line %d: nested too deeply", n.Line)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return nil, fmt.Errorf("line %d: an alias, which no export has: write out its value", n.Line)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := valueOf(c, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, twice := out[key.Value]; twice {
				hint := ""
				if depth == 0 && (key.Value == "apiVersion" || key.Value == "kind") {
					hint = ": is a line --- missing between two objects?"
				}
				return nil, fmt.Errorf("line %d: key %q appears twice%s", key.Line, key.Value, hint)
			}
			v, err := valueOf(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			out[key.Value] = v
		}
		return out, nil
	}
	return scalarValue(n), nil
}

// scalarValue returns the value of a scalar in JSON: a text where JSON has no other type.
func scalarValue(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	}
	return n.Value
}
