package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

type object struct {
	kind, apiVersion string
	lean.Metadata
	isAny bool   // has any field of an object
	text  []byte // its JSON until it is decoded
	path  string // of its file, for messages
}

// readHead reads what is known of an object or List before it is decoded, and calls items where it has items.
func (o *object) readHead(r *lean.Reader, items func()) (isObject bool) {
	return r.Object(func(name []byte) {
		switch string(name) {
		case "kind":
			o.kind = r.Text()
		case "apiVersion":
			o.apiVersion = r.Text()
		case "metadata":
			o.Read(r, false)
		case "items":
			items()
		default:
			return
		}
		o.isAny = true
	})
}

func (o *object) ref() string { return o.kind + " " + o.Namespace + "/" + o.Name }

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
	start, list, isList := *r, &object{path: path}, false
	isObject := list.readHead(r, func() {
		isList = isList || r.Kind() == '['
		r.Array(func() {
			if len(items) <= maxObjects {
				items = append(items, &object{text: r.Raw(), path: path})
			}
		})
	})
	if err := r.Err(); err != nil {
		return nil, false, fmt.Errorf("%s is not JSON: %w", path, err)
	}
	if !isObject {
		return nil, false, fmt.Errorf("%s: must hold one JSON object, a List for several", path)
	}
	if list.isAny && !isList {
		list.text = start.Raw()
		return []*object{list}, true, nil
	}
	kind, isTyped := strings.CutSuffix(list.kind, "List")
	for i, o := range items {
		if !o.readHead(lean.New(o.text), func() {}) {
			return nil, false, fmt.Errorf("%s: items[%d] is not a Kubernetes object", path, i)
		}
		if o.kind == "" && isTyped && kind != "" { // items of a typed list, for example a PodList, have no kind
			o.kind, o.apiVersion = kind, list.apiVersion
		}
	}
	return items, list.isAny, nil
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
		return fmt.Errorf("%s: %s: %w", o.path, o.ref(), cmp.Or(err, errors.Join(twice...)))
	}
	return nil
}
