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

// asJSON makes JSON of the documents of a YAML file, one by one.
func (f *file) asJSON(text []byte) (documents [][]byte, err error) {
	budget := aliasedBy(text)
	for start, end, parts := 0, 0, 0; start < len(text); start, parts = end, parts+1 {
		end = len(text)
		// No scalar has such a line. A parser takes kilobytes for each part.
		if at := bytes.Index(text[start:], []byte("\n---\n")); at >= 0 && text[0] != '%' && parts < 50_000 {
			end = start + at + 1
		}
		if list, ok := listAsJSON(text[start:end]); ok {
			documents = append(documents, list)
		} else if documents, err = f.documentsAsJSON(documents, text[start:end], &budget); err != nil && start > 0 {
			return nil, fmt.Errorf("%w (in what begins in line %d)", err, 1+bytes.Count(text[:start], []byte("\n")))
		} else if err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// documentsAsJSON appends the JSON of a text's documents. budget is what aliases may still stand for.
func (f *file) documentsAsJSON(documents [][]byte, text []byte, budget *int) ([][]byte, error) {
	if yamlNodes(text) > maxNodes {
		return nil, fmt.Errorf("%s %w: it is not a List as kubectl writes it, and has more than %d nodes of YAML: "+
			"export it as JSON, or in several files", f.path, errTooLarge, maxNodes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := &yaml.Node{}
		err := dec.Decode(doc)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not YAML: %w", f.path, err)
		}
		if isEmpty(doc) {
			continue
		}
		root := doc.Content[0]
		if root.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s, line %d: a document is not a Kubernetes object", f.path, root.Line)
		}
		if items := resolved(child(root, "items")); items != nil && items.Kind == yaml.SequenceNode {
			for _, item := range items.Content {
				if resolved(item).Kind != yaml.MappingNode {
					return nil, fmt.Errorf("%s, line %d: an item is not a Kubernetes object", f.path, item.Line)
				}
			}
		}
		v, err := expand(root, 0, false, budget)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		d, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
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
			parsed[i], err = itemAsJSON(items[i])
			return err
		})
	}
	var doc yaml.Node
	if g.Wait() != nil || yamlNodes(head) > maxNodes || yaml.Unmarshal(head, &doc) != nil || isEmpty(&doc) || doc.Content[0].Kind != yaml.MappingNode {
		return nil, false
	}
	v, err := plain(doc.Content[0])
	if err != nil {
		return nil, false
	}
	out, err := json.Marshal(v)
	if err != nil || len(out) < 3 { // {}
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
		case bytes.HasPrefix(line, []byte("- ")):
			if !inItems {
				return nil, nil, false
			}
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

func itemAsJSON(text []byte) ([]byte, error) {
	if yamlNodes(text) > maxNodes/itemsAtOnce {
		return nil, errTooLarge
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if isEmpty(&doc) || doc.Content[0].Kind != yaml.SequenceNode || len(doc.Content[0].Content) != 1 || doc.Content[0].Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not one object")
	}
	none := -1 // what has aliases is left to the whole parser, which counts those of all items
	v, err := expand(doc.Content[0].Content[0], 0, false, &none)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// aliasedBy is how many bytes aliases may stand for in a text: a few nested ones can
// stand for more than fits into any machine, and so can many of one long value.
func aliasedBy(text []byte) int { return min(64<<10+16*len(text), maxAliased) }

const maxAliased = 4 << 20

// plain turns a YAML node into the values that JSON has. Keys and times stay
// the text they are: an allocation's key "09" is not the number nine.
func plain(n *yaml.Node) (any, error) {
	budget := maxAliased
	return expand(n, 0, false, &budget)
}

func expand(n *yaml.Node, depth int, aliased bool, budget *int) (any, error) {
	if aliased {
		*budget -= nodeSize + len(n.Value)
	}
	if depth > 100 || aliased && *budget < 0 {
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
			if aliased {
				*budget -= nodeSize + len(n.Content[i].Value)
			}
			if _, twice := out[n.Content[i].Value]; twice {
				return nil, fmt.Errorf("line %d: key %q appears twice", n.Content[i].Line, n.Content[i].Value)
			}
			out[n.Content[i].Value] = v
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
