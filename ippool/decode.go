package ippool

import (
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// DecodePool reads the JSON of an IPPool as ReadPool reads the object. It is an error only if the text is not JSON.
func DecodePool(text []byte) (*Pool, error) { return decode(text, readPool) }

// DecodeReservation is DecodePool for a reservation.
func DecodeReservation(text []byte) (*Reservation, error) { return decode(text, readReservation) }

// DecodeNAD is DecodePool for a NetworkAttachmentDefinition.
func DecodeNAD(text []byte) (*NAD, error) { return decode(text, readNAD) }

// DecodePools reads the JSON of a LIST of IPPools, and calls each with every pool. It fails if the text is no list.
func DecodePools(text []byte, each func(*Pool)) (metav1.ListMeta, error) {
	return decodeList(text, readPool, each)
}

// DecodeReservations is DecodePools for reservations.
func DecodeReservations(text []byte, each func(*Reservation)) (metav1.ListMeta, error) {
	return decodeList(text, readReservation, each)
}

// DecodeNADs is DecodePools for NetworkAttachmentDefinitions.
func DecodeNADs(text []byte, each func(*NAD)) (metav1.ListMeta, error) {
	return decodeList(text, readNAD, each)
}

// object is what is read of an object. A field of another type than it must have is omitted.
type object struct {
	Metadata metadata
	Spec     any
	Status   any
}

type metadata struct {
	Namespace, Name, UID, ResourceVersion string
	CreationTimestamp, DeletionTimestamp  string
	Annotations                           map[string]string
}

// textField is a field that holds a text, and where to put it.
type textField struct {
	name string
	into *string
}

func (m *metadata) name() types.NamespacedName {
	return types.NamespacedName{Namespace: intern(m.Namespace), Name: m.Name}
}

func (m *metadata) texts() []textField {
	return []textField{{"namespace", &m.Namespace}, {"name", &m.Name}, {"uid", &m.UID},
		{"resourceVersion", &m.ResourceVersion}, {"creationTimestamp", &m.CreationTimestamp},
		{"deletionTimestamp", &m.DeletionTimestamp}}
}

// objectOf is what is read of an object that was decoded as a whole.
func objectOf(u *unstructured.Unstructured) *object {
	o := &object{Spec: u.Object["spec"], Status: u.Object["status"]}
	o.Metadata.Annotations = u.GetAnnotations()
	fields, _ := u.Object["metadata"].(map[string]any)
	for _, f := range o.Metadata.texts() {
		*f.into, _ = fields[f.name].(string)
	}
	return o
}

func (o *object) spec() (fields map[string]any, isObject bool) {
	fields, isObject = o.Spec.(map[string]any)
	return fields, isObject
}

func decode[T any](text []byte, read func(*object) T) (T, error) {
	r, o := lean.New(text), &object{Metadata: metadata{Annotations: map[string]string{}}}
	r.Object(func(name []byte) {
		switch string(name) {
		case "metadata":
			o.Metadata.read(r)
		case "spec":
			o.Spec = r.Value()
		case "status":
			o.Status = r.Value()
		}
	})
	return read(o), r.End()
}

func (m *metadata) read(r *lean.Reader) {
	texts := m.texts()
	r.Object(func(name []byte) {
		if i := slices.IndexFunc(texts, func(f textField) bool { return f.name == string(name) }); i >= 0 {
			if text, isText := r.String(); isText {
				*texts[i].into = string(text)
			}
		} else if string(name) == "annotations" {
			r.Object(func(name []byte) {
				key := string(name)
				value, _ := r.String()
				m.Annotations[key] = string(value)
			})
		}
	})
}

func decodeList[T any](text []byte, read func(*object) T, each func(T)) (metav1.ListMeta, error) {
	return lean.List(text, func(object []byte, _ bool) error {
		v, err := decode(object, read)
		each(v)
		return err
	})
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
