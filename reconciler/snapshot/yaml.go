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
		part, err := documentsAsJSON(path, text[start:end], maxNodes, &aliased)
		if err != nil && start > 0 {
			return nil, fmt.Errorf("%w (in what begins in line %d)", err, 1+bytes.Count(text[:start], []byte("\n")))
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, part...)
	}
	return documents, nil
}

// documentsAsJSON makes JSON of a text's documents. maxNodes is how many nodes they may have together, and aliased how
// many bytes aliases may still stand for.
func documentsAsJSON(path string, text []byte, maxNodes int, aliased *int) (documents [][]byte, err error) {
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
		if root.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s, line %d: a document is not a Kubernetes object", path, root.Line)
		}
		v, err := expand(root, 0, false, aliased)
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

// listAsJSON makes JSON of a List as kubectl writes it, item by item, on all cores:
// what a parser makes of YAML is twenty times larger than the text. It reports false
// for any other text, and for one with anything wrong in it.
func listAsJSON(text []byte) ([]byte, bool) {
	head, items, ok := splitList(bytes.TrimPrefix(text, []byte("---\n")))
	if !ok {
		return nil, false
	}
	parsed := make([][]byte, len(items))
	var g errgroup.Group
	g.SetLimit(min(runtime.GOMAXPROCS(0), itemsAtOnce))
	for i := range items {
		g.Go(func() (err error) {
			item := append([]byte(" "), items[i][1:]...) // without its dash an item is a document
			parsed[i], err = objectAsJSON(item, maxNodes/itemsAtOnce)
			return err
		})
	}
	out, err := objectAsJSON(head, maxNodes)
	if g.Wait() != nil || err != nil || len(out) < 3 { // {}
		return nil, false
	}
	out = append(out[:len(out)-1], `,"items":[`...)
	out = append(out, bytes.Join(parsed, []byte(","))...)
	return append(out, "]}"...), true
}

// objectAsJSON makes JSON of a part of a List that is one object.
func objectAsJSON(text []byte, maxNodes int) ([]byte, error) {
	none := -1 // what has aliases is left to the whole parser, which counts those of all items
	documents, err := documentsAsJSON("", text, maxNodes, &none)
	if err != nil || len(documents) != 1 {
		return nil, cmp.Or(err, errors.New("not one object"))
	}
	return documents[0], nil
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
