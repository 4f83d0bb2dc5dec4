package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// object is an object of a snapshot.
type object struct {
	kind, apiVersion     string
	namespace, name, uid string
	text                 []byte // its JSON until it has been read
	path                 string // of its file, for messages
}

// ref names the object as "<kind> <namespace> <name>".
func (o *object) ref() string { return strings.Join([]string{o.kind, o.namespace, o.name}, " ") }

// shown names the object in messages.
func (o *object) shown() string { return o.kind + " " + o.namespace + "/" + o.name }

func (o *object) id() types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace, Name: o.name}
}

// objectsOf are those of a file; a List counts as its items, and lists are how many Lists there are.
func objectsOf(e entry, text []byte) (objects []*object, lists int, err error) {
	f := &file{path: e.path}
	documents := [][]byte{text}
	isJSON := path.Ext(strings.TrimSuffix(e.name, ".gz")) == ".json" || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
	if !isJSON {
		if documents, err = asJSON(e.path, text); err != nil {
			return nil, 0, err
		}
	}
	for _, d := range documents {
		for r := lean.New(d); r.More(); {
			if err := f.read(r); err != nil {
				return nil, 0, err
			}
		}
	}
	return f.objects, f.lists, nil
}

// file is what was read of a file so far.
type file struct {
	path    string // for messages
	objects []*object
	lists   int
}

// read reads one JSON value: an object, or a List of them. One that has nothing of an object is none.
func (f *file) read(r *lean.Reader) error {
	start := *r
	var list object // what the List says of its items
	var items []*object
	isObject, isList, other := false, false, -1 // other is the first item that is no object
	whole := r.Object(func(name []byte) {
		isObject = isObject || slices.Contains([]string{"kind", "apiVersion", "metadata", "items"}, string(name))
		switch string(name) {
		case "kind":
			list.kind = textOf(r)
		case "apiVersion":
			list.apiVersion = textOf(r)
		case "items":
			isList = r.Kind() == '[' || isList
			r.Array(func() {
				if r.Kind() != '{' && other < 0 {
					other = len(items)
				}
				if other < 0 && len(items)+len(f.objects) <= maxObjects {
					items = append(items, readObject(r, f.path))
				}
			})
		}
	})
	switch err := r.Err(); {
	case err != nil:
		return fmt.Errorf("%s is not JSON: %w", f.path, err)
	case !whole:
		return fmt.Errorf("%s: must hold one JSON object, a List for several", f.path)
	case other >= 0:
		return fmt.Errorf("%s: items[%d] is not a Kubernetes object", f.path, other)
	case isList:
		f.lists++
	case isObject:
		items = []*object{readObject(&start, f.path)}
	}
	kind, typed := strings.CutSuffix(list.kind, "List")
	for _, o := range items {
		if o.kind == "" && isList && typed && kind != "" { // items of a typed list, as PodList, leave out their kind
			o.kind, o.apiVersion = kind, list.apiVersion
		}
	}
	if f.objects = append(f.objects, items...); len(f.objects) > maxObjects {
		return fmt.Errorf("%s %w: it has more than %d objects: export them in several files", f.path, errTooLarge, maxObjects)
	}
	return nil
}

// readObject reads what tells objects apart.
func readObject(r *lean.Reader, path string) *object {
	o := &object{path: path, text: r.Raw()}
	head := lean.New(o.text)
	head.Object(func(name []byte) {
		switch string(name) {
		case "kind":
			o.kind = textOf(head)
		case "apiVersion":
			o.apiVersion = textOf(head)
		case "metadata":
			head.Object(func(name []byte) {
				switch string(name) {
				case "namespace":
					o.namespace = textOf(head)
				case "name":
					o.name = textOf(head)
				case "uid":
					o.uid = textOf(head)
				}
			})
		}
	})
	return o
}

var fileFields = podstate.FileFields()

// shrink leaves of the object what is read of it. A key that appears twice there is an error: one reader may take the
// first and another the last.
func (o *object) shrink() error {
	switch _, known := kinds[o.kind]; {
	case !known:
		o.text = nil
	case o.kind == "Pod" || o.kind == "Node":
		o.text = fileFields.AppendJSON(nil, lean.New(o.text))
	}
	var whole any
	twice, err := kjson.UnmarshalStrict(o.text, &whole, kjson.DisallowDuplicateFields)
	if o.text != nil && (err != nil || len(twice) > 0) {
		return fmt.Errorf("%s: %s: %w", o.path, o.shown(), cmp.Or(err, errors.Join(twice...)))
	}
	return nil
}

func textOf(r *lean.Reader) string {
	text, _ := r.String()
	return string(text)
}
