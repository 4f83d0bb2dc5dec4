package lean

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List decodes the answer to a LIST in protobuf or JSON, and calls item for each object. The object is valid until
// body changes. After an error the caller must discard all objects.
func List(body []byte, item func(object []byte, isJSON bool) error) (metav1.ListMeta, error) {
	read := listJSON
	envelope, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if ok {
		body, read = envelope, listProto
	}
	meta, err := read(body, item)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("decode a list: %w", err)
	}
	return meta, nil
}

func listProto(envelope []byte, item func([]byte, bool) error) (meta metav1.ListMeta, err error) {
	list, err := unwrap(envelope)
	if err != nil {
		return meta, err
	}
	err = eachField(list, func(number protowire.Number, _, value []byte) error {
		switch number {
		case 1:
			return meta.Unmarshal(value)
		case 2:
			return item(value, false)
		}
		return nil
	})
	return meta, err
}

// unwrap returns the message in the API server's envelope (k8s.io/apimachinery, pkg/runtime/serializer/protobuf).
// After four bytes, a runtime.Unknown has the kind in its first field and the message in its second.
func unwrap(envelope []byte) (list []byte, err error) {
	kind, hasMessage := "", false
	err = eachField(envelope, func(number protowire.Number, _, value []byte) error {
		switch number {
		case 1:
			return eachField(value, func(number protowire.Number, _, value []byte) error {
				if number == 2 {
					kind = string(value)
				}
				return nil
			})
		case 2:
			list, hasMessage = value, true
		}
		return nil
	})
	if err == nil && (!hasMessage || !strings.HasSuffix(kind, "List")) {
		err = fmt.Errorf("the answer is a %q", kind)
	}
	return list, err
}

// listJSON calls item only if the whole body is JSON.
func listJSON(body []byte, item func([]byte, bool) error) (meta metav1.ListMeta, err error) {
	var objects [][]byte
	r := New(body)
	h, _ := r.Head(func(object []byte) { objects = append(objects, object) })
	switch {
	case r.End() != nil:
		return meta, r.End()
	case !strings.HasSuffix(h.Kind, "List"):
		return meta, fmt.Errorf("the answer is a %q", h.Kind)
	case !h.IsList:
		return meta, errors.New("the answer has no items")
	}
	for _, object := range objects {
		if err := item(object, true); err != nil {
			return meta, err
		}
	}
	return metav1.ListMeta{ResourceVersion: h.ResourceVersion, Continue: h.Continue}, nil
}

// Head has the members by which an object or a List is known.
type Head struct {
	Kind, APIVersion          string
	Namespace, Name, UID      string
	ResourceVersion, Continue string
	IsAny                     bool // has kind, apiVersion, metadata or items, of any type
	IsList                    bool // has items, maybe null
}

// Head reads an object or a List, and calls item with each item. It reports whether the value is a JSON object.
func (r *Reader) Head(item func(object []byte)) (h Head, isObject bool) {
	text := func() string {
		text, _ := r.String()
		return string(text)
	}
	isObject = r.Object(func(name []byte) {
		switch string(name) {
		case "kind":
			h.Kind = text()
		case "apiVersion":
			h.APIVersion = text()
		case "metadata":
			h.ResourceVersion, h.Continue = "", ""
			r.Object(func(name []byte) {
				switch string(name) {
				case "namespace":
					h.Namespace = text()
				case "name":
					h.Name = text()
				case "uid":
					h.UID = text()
				case "resourceVersion":
					h.ResourceVersion = text()
				case "continue":
					h.Continue = text()
				}
			})
		case "items":
			if h.IsList {
				r.fail("items twice")
			}
			h.IsList = r.Kind() == '[' || r.Kind() == 'n'
			r.Array(func() { item(r.Raw()) })
		default:
			return
		}
		h.IsAny = true
	})
	return h, isObject
}
