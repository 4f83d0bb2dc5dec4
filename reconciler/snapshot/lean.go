package snapshot

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"

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
				"creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil},
			"spec": {"nodeName": nil, "terminationGracePeriodSeconds": nil,
				"containers": keptContainers, "initContainers": keptContainers, "ephemeralContainers": keptContainers},
			"status": {"phase": nil, "podIP": nil, "podIPs": nil, "conditions": {"type": nil, "status": nil},
				"containerStatuses": keptStatuses, "initContainerStatuses": keptStatuses, "ephemeralContainerStatuses": keptStatuses},
		},
		"Node": {
			"metadata": {"name": nil, "uid": nil, "resourceVersion": nil, "labels": nil},
			"spec":     {"taints": nil},
			"status":   {"conditions": {"type": nil, "status": nil, "lastTransitionTime": nil}, "nodeInfo": nil},
		},
	}
)

// append appends a value with what is kept of it, and notes a name that stands
// twice in an object there.
func (k kept) append(dst []byte, r *rawjson.Reader, twice *string) []byte {
	if k == nil {
		raw := r.Raw()
		*twice = cmp.Or(*twice, repeated(rawjson.New(raw)))
		return append(dst, raw...)
	}
	switch r.Kind() {
	case '{':
		dst = append(dst, '{')
		var names seen
		r.Object(func(name []byte) {
			inner, read := k[string(name)]
			if !read {
				return
			}
			if len(names.list) > 0 {
				dst = append(dst, ',')
			}
			names.add(name, twice)
			dst = append(append(append(dst, '"'), name...), `":`...) // a name that is kept has no escapes
			dst = inner.append(dst, r, twice)
		})
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		first := true
		r.Array(func() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = k.append(dst, r, twice)
		})
		return append(dst, ']')
	}
	return append(dst, r.Raw()...)
}

// seen are the names of one object so far: a few in a list, many in a set.
type seen struct {
	list []string
	set  map[string]bool
}

func (s *seen) add(name []byte, twice *string) {
	if s.set[string(name)] || slices.Contains(s.list, string(name)) {
		*twice = string(name)
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

// repeated is a name that stands twice in an object of the value, "" for none.
func repeated(r *rawjson.Reader) (twice string) {
	var walk func()
	walk = func() {
		switch r.Kind() {
		case '{':
			var names seen
			r.Object(func(name []byte) {
				names.add(name, &twice)
				walk()
			})
		case '[':
			r.Array(walk)
		default:
			r.Skip()
		}
	}
	walk()
	return twice
}

// readLean reads a file of a list whose items are all of lean kinds, without
// building values of what nobody reads. It reports false, and has done nothing,
// where the file is anything else.
func (f *file) readLean(text []byte) ([]*object, bool) {
	var kind, version string
	var items [][]byte
	r := rawjson.New(text)
	if !r.Object(func(name []byte) {
		switch string(name) {
		case "kind":
			kind = textOf(r)
		case "apiVersion":
			version = textOf(r)
		case "items":
			items = nil
			r.Array(func() { items = append(items, r.Raw()) })
		}
	}) || r.End() != nil || len(items) == 0 {
		return nil, false
	}
	objects := make([]*object, len(items))
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() (err error) {
			for i := w; i < len(items) && err == nil; i += workers {
				objects[i], err = f.leanObject(items[i], kind, version)
			}
			return err
		})
	}
	if g.Wait() != nil {
		return nil, false
	}
	return objects, true
}

// leanObject is an object with what is read of it as JSON.
func (f *file) leanObject(item []byte, listKind, listVersion string) (*object, error) {
	kind, version := "", ""
	r := rawjson.New(item)
	r.Object(func(name []byte) {
		switch string(name) {
		case "kind":
			kind = textOf(r)
		case "apiVersion":
			version = textOf(r)
		}
	})
	if kind == "" {
		if of, ok := strings.CutSuffix(listKind, "List"); ok {
			kind, version = of, listVersion
		}
	}
	fields, lean := leanKinds[kind]
	if !lean || version != "v1" {
		return nil, fmt.Errorf("a %s of %s is read as a whole", kind, version)
	}
	o, twice := &object{file: f}, ""
	if o.lean = fields.append(nil, rawjson.New(item), &twice); twice != "" {
		return nil, fmt.Errorf("the key %q stands twice", twice)
	}
	var head struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(o.lean, &head); err != nil {
		return nil, err
	}
	if annotations, there := head.Metadata["annotations"]; there && annotations != nil {
		delete(head.Metadata, "annotations") // of the head nobody reads them
	}
	o.Unstructured = &unstructured.Unstructured{Object: map[string]any{"kind": kind, "apiVersion": version, "metadata": head.Metadata}}
	return o, nil
}

func textOf(r *rawjson.Reader) string {
	text, _ := r.String()
	return string(text)
}
