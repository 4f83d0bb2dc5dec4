package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
)

// asJSON makes JSON of the documents of a YAML file, one by one. path is for messages.
func asJSON(path string, text []byte) (documents [][]byte, err error) {
	aliased := min(64<<10+16*len(text), maxAliased) // a few nested ones stand for more than fits into any machine
	for start, end, parts := 0, 0, 0; start < len(text); start, parts = end, parts+1 {
		end = len(text)
		// No scalar has such a line. A parser takes kilobytes for each part.
		if at := bytes.Index(text[start:], []byte("\n---\n")); at >= 0 && text[0] != '%' && parts < 50_000 {
			end = start + at + 1
		}
		if list, ok := listAsJSON(text[start:end]); ok {
			documents = append(documents, list)
			continue
		}
		part, err := documentsAsJSON(path, text[start:end], &aliased)
		if err != nil && start > 0 {
			return nil, fmt.Errorf("%w (in what begins in line %d)", err, 1+bytes.Count(text[:start], []byte("\n")))
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, part...)
	}
	return documents, nil
}

// documentsAsJSON makes JSON of a text's documents. aliased is how many bytes aliases may still stand for.
func documentsAsJSON(path string, text []byte, aliased *int) (documents [][]byte, err error) {
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
		if isEmpty(doc) {
			continue
		}
		d, err := objectAsJSON(path, doc.Content[0], aliased)
		if err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
}

// isEmpty reports whether there is nothing in a document, be it comments.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null"
}

func objectAsJSON(path string, root *yaml.Node, aliased *int) ([]byte, error) {
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s, line %d: a document is not a Kubernetes object", path, root.Line)
	}
	d, err := nodeAsJSON(root, aliased)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// listAsJSON makes JSON of a List as kubectl writes it, item by item, on all cores:
// what a parser makes of YAML is twenty times larger than the text. It reports false
// for any other text, and for one with anything wrong in it.
func listAsJSON(text []byte) ([]byte, bool) {
	head, items, ok := splitList(bytes.TrimPrefix(text, []byte("---\n")))
	if !ok || yamlNodes(head) > maxNodes {
		return nil, false
	}
	parsed := make([][]byte, len(items))
	var g errgroup.Group
	g.SetLimit(min(runtime.GOMAXPROCS(0), itemsAtOnce))
	for i := range items {
		g.Go(func() (err error) {
			parsed[i], err = partAsJSON(items[i], maxNodes/itemsAtOnce, true)
			return err
		})
	}
	out, err := partAsJSON(head, maxNodes, false)
	if g.Wait() != nil || err != nil || len(out) < 3 { // {}
		return nil, false
	}
	out = append(out[:len(out)-1], `,"items":[`...)
	out = append(out, bytes.Join(parsed, []byte(","))...)
	return append(out, "]}"...), true
}

// splitList splits a List into the text beside its items, and its items, each as a
// list of one. What begins in the first column is a key or an item, because all
// within these is indented by more; where a scalar is not, its quote is left open in
// the part, which then cannot be parsed.
func splitList(text []byte) (head []byte, items [][]byte, ok bool) {
	inItems, part := false, 0 // where the part began that the line is of
	end := func(at int) {
		switch {
		case part == at:
		case text[part] == '-':
			items = append(items, text[part:at])
		default:
			head = append(head, text[part:at]...)
		}
		part = at
	}
	for at := 0; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		next := min(at+len(line)+1, len(text))
		switch {
		case len(line) == 0 || line[0] == ' ':
			if at == 0 || inItems && at == part { // a list that is indented
				return nil, nil, false
			}
		case string(line) == "items:":
			if end(at); len(items) > 0 || inItems {
				return nil, nil, false
			}
			inItems, part = true, next
		case inItems && bytes.HasPrefix(line, []byte("- ")):
			end(at)
		case line[0] >= 'a' && line[0] <= 'z':
			end(at)
			inItems = false
		default: // a comment, a second document, …
			return nil, nil, false
		}
		at = next
	}
	end(len(text))
	return head, items, len(items) > 0 && len(items) <= maxObjects
}

// partAsJSON makes JSON of a document that is one object, or a list of one.
func partAsJSON(text []byte, nodes int, isItem bool) ([]byte, error) {
	if yamlNodes(text) > nodes {
		return nil, errTooLarge
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	n := &doc
	for _, kind := range []yaml.Kind{yaml.DocumentNode, yaml.SequenceNode} {
		if kind == yaml.SequenceNode && !isItem {
			break
		}
		if n.Kind != kind || len(n.Content) != 1 {
			return nil, errors.New("not one object")
		}
		n = n.Content[0]
	}
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("not one object")
	}
	none := -1 // what has aliases is left to the whole parser, which counts those of all items
	return nodeAsJSON(n, &none)
}

func nodeAsJSON(n *yaml.Node, aliased *int) ([]byte, error) {
	v, err := expand(n, 0, false, aliased)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// expand turns a YAML node into the values that JSON has. Keys and times stay
// the text they are: an allocation's key "09" is not the number nine.
func expand(n *yaml.Node, depth int, aliased bool, budget *int) (any, error) {
	if aliased {
		*budget -= nodeSize + len(n.Value)
	}
	if depth > 100 || aliased && *budget < 0 {
		return nil, fmt.Errorf("line %d: nested too deeply, or too much behind aliases", n.Line)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return expand(n.Alias, depth+1, true, budget)
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			v, err := expand(c, depth+1, aliased, budget)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := expand(n.Content[i+1], depth+1, aliased, budget)
			if err != nil {
				return nil, err
			}
			key := n.Content[i]
			if aliased {
				*budget -= nodeSize + len(key.Value)
			}
			if _, twice := out[key.Value]; twice {
				return nil, fmt.Errorf("line %d: key %q appears twice", key.Line, key.Value)
			}
			out[key.Value] = v
		}
		return out, nil
	}
	return scalarValue(n), nil
}

// nodeSize is what a node takes, in bytes, beside its text.
const nodeSize = 16

// scalarValue is what JSON has for a scalar: a text where that has nothing else.
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
