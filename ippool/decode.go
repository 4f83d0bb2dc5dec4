package ippool

import (
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		Namespace, Name, UID, ResourceVersion string
		CreationTimestamp, DeletionTimestamp  string
		Annotations                           map[string]string
	}
	Spec any
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
	r, o := lean.New(text), &object{}
	r.Object(func(name []byte) {
		switch string(name) {
		case "metadata":
			o.readMetadata(r)
		case "spec":
			o.Spec = r.Value()
		}
	})
	return read(o), r.End()
}

func (o *object) readMetadata(r *lean.Reader) {
	m := &o.Metadata
	r.Object(func(name []byte) {
		switch string(name) {
		case "namespace":
			readText(r, &m.Namespace)
		case "name":
			readText(r, &m.Name)
		case "uid":
			readText(r, &m.UID)
		case "resourceVersion":
			readText(r, &m.ResourceVersion)
		case "creationTimestamp":
			readText(r, &m.CreationTimestamp)
		case "deletionTimestamp":
			readText(r, &m.DeletionTimestamp)
		case "annotations":
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			r.Object(func(name []byte) {
				key, value := string(name), ""
				readText(r, &value)
				m.Annotations[key] = value
			})
		}
	})
}

func readText(r *lean.Reader, into *string) {
	if text, isText := r.String(); isText {
		*into = string(text)
	}
}

func decodeList[T any](text []byte, read objectReader[T]) (all []T, page metav1.ListMeta, err error) {
	page, err = lean.List(text, func(object []byte, _ bool) error {
		v, err := decode(object, read)
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
