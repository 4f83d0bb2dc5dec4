package snapshot

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"
)

// child is the value of a key of a mapping node, nil if it has none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// isEmpty reports whether there is nothing in a document, be it comments.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null"
}

// resolved is what an alias refers to, else the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// removeKey takes a key out of a mapping node.
func removeKey(n *yaml.Node, key string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
			return
		}
	}
}

// isCompact reports whether a sequence in the node begins in the column of its key.
func isCompact(n *yaml.Node) bool {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			v := n.Content[i+1]
			if v.Kind == yaml.SequenceNode && v.Style&yaml.FlowStyle == 0 && len(v.Content) > 0 {
				return v.Column == n.Content[i].Column
			}
		}
	}
	for _, c := range n.Content {
		if isCompact(c) {
			return true
		}
	}
	return false
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// untagMerge makes a value that reads "<<" a text like any other: only as a key
// does it merge, and the encoder would write its tag out.
func untagMerge(n *yaml.Node) {
	for i, c := range n.Content {
		if c.Kind == yaml.ScalarNode && c.Tag == "!!merge" && (n.Kind != yaml.MappingNode || i%2 == 1) {
			c.Tag = ""
		}
		untagMerge(c)
	}
}

// indentOf is the white space before the first key of a JSON text.
func indentOf(text []byte) string {
	_, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok {
		return ""
	}
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}
