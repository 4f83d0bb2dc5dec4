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

type object struct {
	kind, apiVersion     string
	namespace, name, uid string
	text                 []byte // its JSON until it is decoded
	path                 string // of its file, for messages
}

func (o *object) ref() string { return strings.Join([]string{o.kind, o.namespace, o.name}, " ") }

func (o *object) shown() string { return o.kind + " " + o.namespace + "/" + o.name }

func (o *object) id() types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace, Name: o.name}
}

// objectsOf returns the objects of a file and the items of its Lists. isAny is false where it has neither.
func objectsOf(e entry, text []byte) (objects []*object, isAny bool, err error) {
	documents := [][]byte{text}
	isJSON := path.Ext(strings.TrimSuffix(e.name, ".gz")) == ".json" || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
	if !isJSON {
		if documents, err = asJSON(e.path, text); err != nil {
			return nil, false, err
		}
	}
	for _, d := range documents {
		for r := lean.New(d); r.More(); {
			found, is, err := readObjects(r, e.path)
			if err != nil {
				return nil, false, err
			}
			isAny = isAny || is
			if objects = append(objects, found...); len(objects) > maxObjects {
				return nil, false, fmt.Errorf("%s %w: it has more than %d objects: export them in several files",
					e.path, errTooLarge, maxObjects)
			}
		}
	}
	return objects, isAny, nil
}

// readObjects reads one JSON value: an object or a List. A value without any field of an object is neither.
func readObjects(r *lean.Reader, path string) (items []*object, isAny bool, err error) {
	start := *r
	var list object // the kind and apiVersion of the List
	isList := false
	whole := r.Object(func(name []byte) {
		isAny = isAny || slices.Contains([]string{"kind", "apiVersion", "metadata", "items"}, string(name))
		switch string(name) {
		case "kind":
			list.kind = textOf(r)
		case "apiVersion":
			list.apiVersion = textOf(r)
		case "items":
			isList = isList || r.Kind() == '['
			r.Array(func() {
				if len(items) <= maxObjects {
					items = append(items, readObject(r, path))
				}
			})
		}
	})
	if err := r.Err(); err != nil {
		return nil, false, fmt.Errorf("%s is not JSON: %w", path, err)
	}
	if !whole {
		return nil, false, fmt.Errorf("%s: must hold one JSON object, a List for several", path)
	}
	if isAny && !isList {
		return []*object{readObject(&start, path)}, true, nil
	}
	kind, isTyped := strings.CutSuffix(list.kind, "List")
	for i, o := range items {
		if o.text[0] != '{' {
			return nil, false, fmt.Errorf("%s: items[%d] is not a Kubernetes object", path, i)
		}
		if o.kind == "" && isTyped && kind != "" { // items of a typed list, for example a PodList, have no kind
			o.kind, o.apiVersion = kind, list.apiVersion
		}
	}
	return items, isAny, nil
}

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

// shrink reduces the object to the fields that are judged. A key that appears twice there is an error: readers disagree
// on which one counts.
func (o *object) shrink() error {
	switch _, known := kinds[o.kind]; {
	case !known:
		o.text = nil
	case o.kind == "Pod":
		o.text = podstate.PodFields.AppendJSON(nil, lean.New(o.text))
	case o.kind == "Node":
		o.text = podstate.NodeFields.AppendJSON(nil, lean.New(o.text))
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
