package snapshot

import (
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/ip-reconcile/ip-reconcile/internal/rawjson"
)

// kept are the members of an object that are read, by name: nil keeps one as a
// whole, else it is an object, or a list of them, of which these are read.
type kept map[string]kept

var (
	keptContainers = kept{"name": nil}
	keptStatuses   = kept{"name": nil, "state": {"terminated": {"finishedAt": nil}}}
	// leanKinds are the kinds that are never written to and of which little is read.
	leanKinds = map[string]kept{
		"Pod": {
			"metadata": {"name": nil, "namespace": nil, "uid": nil, "resourceVersion": nil, "annotations": nil,
				"ownerReferences":   {"kind": nil, "name": nil, "controller": nil},
				"creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil},
			"spec": {"nodeName": nil, "terminationGracePeriodSeconds": nil,
				"containers": keptContainers, "initContainers": keptContainers, "ephemeralContainers": keptContainers},
			"status": {"phase": nil, "podIP": nil, "podIPs": nil, "conditions": {"type": nil, "status": nil},
				"containerStatuses": keptStatuses, "initContainerStatuses": keptStatuses, "ephemeralContainerStatuses": keptStatuses},
		},
		"Node": {
			"metadata": {"name": nil, "uid": nil, "resourceVersion": nil, "creationTimestamp": nil, "labels": nil},
			"spec":     {"taints": nil},
			"status":   {"conditions": {"type": nil, "status": nil, "lastTransitionTime": nil}, "nodeInfo": nil},
		},
	}
)

// append appends a value with what is kept of it, and notes a name that stands
// twice in an object there.
func (k kept) append(dst []byte, r *rawjson.Reader, names *seen) []byte {
	if k == nil {
		raw := r.Raw()
		names.twice = cmp.Or(names.twice, repeated(rawjson.New(raw)))
		return append(dst, raw...)
	}
	switch r.Kind() {
	case '{':
		dst = append(dst, '{')
		var own seen
		r.Object(func(name []byte) {
			if inner, read := k[string(name)]; read {
				own.add(name)
				dst = inner.append(appendName(dst, name), r, names)
			}
		})
		names.twice = cmp.Or(names.twice, own.twice)
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		first := true
		r.Array(func() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = k.append(dst, r, names)
		})
		return append(dst, ']')
	}
	return append(dst, r.Raw()...)
}

// appendName appends the name of a member to an object's JSON.
func appendName(dst, name []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendText(dst, name), ':')
}

// appendText appends a text as JSON.
func appendText(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(string(text)) // of a text there is no error
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// seen are the names of one object so far: a few in a list, many in a set.
type seen struct {
	list  []string
	set   map[string]bool
	twice string // a name that appears twice, in the object or below it
}

func (s *seen) add(name []byte) {
	if s.set[string(name)] || slices.Contains(s.list, string(name)) {
		s.twice = string(name)
	}
	if s.set == nil && len(s.list) < 16 {
		s.list = append(s.list, string(name))
		return
	}
	if s.set == nil {
		s.set = map[string]bool{}
	}
	s.set[string(name)] = true
}

// repeated is a name that appears twice in an object of the value, "" for none.
func repeated(r *rawjson.Reader) (twice string) {
	var walk func()
	walk = func() {
		switch r.Kind() {
		case '{':
			var names seen
			r.Object(func(name []byte) {
				names.add(name)
				walk()
			})
			twice = cmp.Or(twice, names.twice)
		case '[':
			r.Array(walk)
		default:
			r.Skip()
		}
	}
	walk()
	return twice
}
