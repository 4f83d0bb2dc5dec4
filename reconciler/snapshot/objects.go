package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

type object struct {
	lean.Head
	text []byte // its JSON until it is decoded
	path string // of its file, for messages
}

func (o *object) ref() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

func (o *object) id() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
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
	head, isObject := r.Head(func(text []byte) {
		if len(items) <= maxObjects {
			item, _ := lean.New(text).Head(func([]byte) {})
			items = append(items, &object{item, text, path})
		}
	})
	if err := r.Err(); err != nil {
		return nil, false, fmt.Errorf("%s is not JSON: %w", path, err)
	}
	if !isObject {
		return nil, false, fmt.Errorf("%s: must hold one JSON object, a List for several", path)
	}
	if head.IsAny && !head.IsList {
		return []*object{{head, start.Raw(), path}}, true, nil
	}
	kind, isTyped := strings.CutSuffix(head.Kind, "List")
	for i, o := range items {
		if o.text[0] != '{' {
			return nil, false, fmt.Errorf("%s: items[%d] is not a Kubernetes object", path, i)
		}
		if o.Kind == "" && isTyped && kind != "" { // items of a typed list, for example a PodList, have no kind
			o.Kind, o.APIVersion = kind, head.APIVersion
		}
	}
	return items, head.IsAny, nil
}

// shrink reduces the object to the fields that are judged. A key that appears twice there is an error: readers disagree
// on which one counts.
func (o *object) shrink() error {
	switch _, known := kinds[o.Kind]; {
	case !known:
		o.text = nil
	case o.Kind == "Pod":
		o.text = podstate.PodFields.AppendJSON(nil, lean.New(o.text))
	case o.Kind == "Node":
		o.text = podstate.NodeFields.AppendJSON(nil, lean.New(o.text))
	}
	var whole any
	twice, err := kjson.UnmarshalStrict(o.text, &whole, kjson.DisallowDuplicateFields)
	if o.text != nil && (err != nil || len(twice) > 0) {
		return fmt.Errorf("%s: %s: %w", o.path, o.ref(), cmp.Or(err, errors.Join(twice...)))
	}
	return nil
}
