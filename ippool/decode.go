package ippool

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json" // whole numbers stay whole

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// DecodePool reads the JSON of an IPPool as ReadPool reads the object. It is an error only if the text is not JSON.
func DecodePool(text []byte) (*Pool, error) { return decode(text, readPool) }

// DecodeReservation is DecodePool for a reservation.
func DecodeReservation(text []byte) (*Reservation, error) { return decode(text, readReservation) }

// DecodeNAD is DecodePool for a NetworkAttachmentDefinition.
func DecodeNAD(text []byte) (*NAD, error) { return decode(text, readNAD) }

// DecodePools reads the JSON of a LIST of IPPools. It is an error if the text is no list.
func DecodePools(text []byte) ([]*Pool, metav1.ListMeta, error) { return decodeList(text, readPool) }

// DecodeReservations is DecodePools for reservations.
func DecodeReservations(text []byte) ([]*Reservation, metav1.ListMeta, error) {
	return decodeList(text, readReservation)
}

// DecodeNADs is DecodePools for NetworkAttachmentDefinitions.
func DecodeNADs(text []byte) ([]*NAD, metav1.ListMeta, error) { return decodeList(text, readNAD) }

// object is what is read of an object. A field of another type than it must have is omitted.
type object struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		CreationTimestamp string            `json:"creationTimestamp"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec any `json:"spec"`
}

// objectOf is what is read of an object that was decoded as a whole.
func objectOf(u *unstructured.Unstructured) *object {
	metadata, _ := u.Object["metadata"].(map[string]any)
	text := func(name string) string {
		s, _ := metadata[name].(string)
		return s
	}
	o := &object{Spec: u.Object["spec"]}
	m := &o.Metadata
	m.Namespace, m.Name, m.UID, m.ResourceVersion = text("namespace"), text("name"), text("uid"), text("resourceVersion")
	m.CreationTimestamp, m.DeletionTimestamp = text("creationTimestamp"), text("deletionTimestamp")
	m.Annotations = u.GetAnnotations()
	return o
}

func (o *object) spec() (fields map[string]any, isObject bool) {
	fields, isObject = o.Spec.(map[string]any)
	return fields, isObject
}

// objectReader reads what can be read of an object, and notes what cannot be.
type objectReader[T any] func(*object) T

func decode[T any](text []byte, read objectReader[T]) (T, error) {
	return new(decoder[T]).decode(text, read)
}

// decoder decodes one object after the other. It leaves out managedFields, which are larger than all that is read.
type decoder[T any] struct {
	text []byte // of the last object
	object
}

func (d *decoder[T]) decode(text []byte, read objectReader[T]) (v T, err error) {
	if d.text, err = lean.AppendWithoutManagedFields(d.text[:0], text); err != nil {
		return v, err
	}
	d.object = object{}
	err = kjson.Unmarshal(d.text, &d.object)
	// All else is decoded where one field has another type. A number that is too large is none of these.
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Type.Kind() != reflect.Float64 {
		err = nil
	}
	return read(&d.object), err
}

func decodeList[T any](text []byte, read objectReader[T]) (all []T, page metav1.ListMeta, err error) {
	var d decoder[T]
	page, err = lean.List(text, func(object []byte, _ bool) error {
		v, err := d.decode(object, read)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return all, page, nil
}

// textField is a field of an allocation or a spec that holds a text, and where to put it.
type textField struct {
	name string
	into *string
}

// readFields reads the known fields of an allocation or a spec, and reports what else is there.
func readFields(o map[string]any, known ...textField) (problem Problem, detail string) {
	var unknown, broken []string
	for name, value := range o {
		if i := slices.IndexFunc(known, func(f textField) bool { return f.name == name }); i < 0 {
			unknown = append(unknown, name)
		} else if text, isText := value.(string); !isText {
			broken = append(broken, name)
		} else {
			*known[i].into = text
		}
	}
	switch {
	case len(broken) > 0:
		return Malformed, "not a string: " + listed(broken)
	case len(unknown) > 0:
		return UnknownField, "unknown field: " + listed(unknown)
	}
	return "", ""
}

func listed(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// intern makes equal texts of many objects one.
func intern(text string) string { return unique.Make(text).Value() }
