package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/rawjson"
)

// file is one file of a snapshot.
type file struct {
	name   string // in the folder
	path   string // for messages
	isJSON bool
}

// object is an object of a snapshot.
type object struct {
	kind, apiVersion     string
	namespace, name, uid string
	text                 []byte // its JSON, or what is read of it, until it has been read
	file                 *file
}

// ref names the object as "<kind> <namespace> <name>".
func (o *object) ref() string { return strings.Join([]string{o.kind, o.namespace, o.name}, " ") }

// objects are those of a file's text; a List counts as its items, and lists are how many
// Lists there are.
func (f *file) objects(text []byte) (objects []*object, lists int, err error) {
	split := f.asJSON
	if f.isJSON {
		split = f.splitJSON
	}
	documents, err := split(text)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range documents {
		isList := false
		if objects, isList, err = f.appendObjects(objects, d); err != nil {
			return nil, 0, err
		}
		if isList {
			lists++
		}
	}
	return objects, lists, nil
}

// splitJSON splits one JSON value after the other.
func (f *file) splitJSON(text []byte) (values [][]byte, err error) {
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not JSON: %w", f.path, err)
		}
		if values = append(values, value); len(values) > maxObjects {
			return nil, fmt.Errorf("%s %w: it has more than %d objects: export them in several files", f.path, errTooLarge, maxObjects)
		}
	}
}

func isJSON(path string, text []byte) bool {
	trimmed := bytes.TrimSpace(text)
	return filepath.Ext(path) == ".json" || len(trimmed) > 0 && trimmed[0] == '{'
}

// appendObjects appends the objects of a JSON text, and reports whether it is a List. One that
// has nothing of an object is none.
func (f *file) appendObjects(objects []*object, text []byte) (_ []*object, isList bool, err error) {
	r := rawjson.New(text)
	var list object // what the List says of its items
	var names seen
	// other is the number of the first item that is no object.
	first, other, isObject := len(objects), 0, false
	whole := r.Object(func(name []byte) {
		names.add(name)
		isObject = isObject || string(name) == "metadata"
		switch string(name) {
		case "kind":
			isObject = true
			list.kind = textOf(r)
		case "apiVersion":
			isObject = true
			list.apiVersion = textOf(r)
		case "items":
			isObject = true
			if isList = r.Kind() == '['; !isList {
				return
			}
			r.Array(func() {
				if other > 0 || r.Kind() != '{' || len(objects) > maxObjects {
					other = cmp.Or(other, len(objects)-first+1)
					return
				}
				o := readObject(r, strings.TrimSuffix(list.kind, "List"), &names)
				o.file = f
				objects = append(objects, o)
			})
		}
	})
	switch err := r.End(); {
	case len(objects) > maxObjects:
		return nil, false, fmt.Errorf("%s %w: it has more than %d objects: export them in several files", f.path, errTooLarge, maxObjects)
	case err != nil && !whole:
		return nil, false, fmt.Errorf("%s is not JSON: %w", f.path, err)
	case !whole || err != nil:
		return nil, false, fmt.Errorf("%s: must hold one JSON object, a List for several", f.path)
	case other > 0:
		return nil, false, fmt.Errorf("%s: items[%d] is not a Kubernetes object", f.path, other-1)
	}
	if !isList && isObject {
		o := readObject(rawjson.New(text), "", &names)
		o.file = f
		objects = append(objects, o)
	}
	if names.twice != "" {
		return nil, false, fmt.Errorf("%s: the key %q appears twice in an object", f.path, names.twice)
	}
	// Items of a typed list, as PodList, leave out their kind.
	if kind, typed := strings.CutSuffix(list.kind, "List"); typed && kind != "" && isList {
		for _, o := range objects[first:] {
			if o.kind == "" {
				o.kind, o.apiVersion = kind, list.apiVersion
			}
		}
	}
	return objects, isList, nil
}

// readObject reads an object, and keeps of it what is read of its kind: what
// comes before its kind is kept as a whole, in a list of a kind what is read of
// that. A name that appears twice is noted.
func readObject(r *rawjson.Reader, listed string, names *seen) *object {
	o, start := &object{}, *r
	fields := leanKinds[listed]
	var own seen
	text := []byte{'{'}
	r.Object(func(name []byte) {
		own.add(name)
		inner, read := fields[string(name)]
		switch string(name) {
		case "kind":
			raw := r.Raw()
			o.kind = textOf(rawjson.New(raw))
			fields = leanKinds[o.kind]
			text = append(appendName(text, name), raw...)
		case "apiVersion":
			raw := r.Raw()
			o.apiVersion = textOf(rawjson.New(raw))
			text = append(appendName(text, name), raw...)
		default:
			if read || fields == nil {
				text = inner.append(appendName(text, name), r, &own)
			}
		}
	})
	if listed != "" && o.kind != "" && o.kind != listed {
		return readObject(&start, "", names) // it is of another kind than its list
	}
	o.text = append(text, '}')
	names.twice = cmp.Or(names.twice, own.twice)
	o.readHead()
	return o
}

func (o *object) readHead() {
	r := rawjson.New(o.text)
	r.Object(func(name []byte) {
		if string(name) != "metadata" {
			return
		}
		r.Object(func(name []byte) {
			switch string(name) {
			case "namespace":
				o.namespace = textOf(r)
			case "name":
				o.name = textOf(r)
			case "uid":
				o.uid = textOf(r)
			}
		})
	})
}

func textOf(r *rawjson.Reader) string {
	text, _ := r.String()
	return string(text)
}
