package ippool

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// readable is an object that is read: a Pool, a Reservation, a NAD or a Claim.
type readable[T any] interface {
	*T
	read(*object)
	kind() string
}

func (*Pool) kind() string        { return "IPPool" }
func (*Reservation) kind() string { return "OverlappingRangeIPReservation" }
func (*NAD) kind() string         { return "NetworkAttachmentDefinition" }
func (*Claim) kind() string       { return "IPAMClaim" }

// Read reads an object. The Problem of the result says what cannot be parsed.
func Read[T any, P readable[T]](u *unstructured.Unstructured) P {
	v := P(new(T))
	v.read(objectOf(u))
	return v
}

// Decode reads the JSON of an object as Read reads the object. It is an error only if the text is not JSON.
func Decode[T any, P readable[T]](text []byte) (P, error) {
	o, err := decode(text)
	v := P(new(T))
	v.read(o)
	return v, err
}

func decode(text []byte) (*object, error) {
	r, o := lean.New(text), &object{}
	r.Object(func(name []byte) {
		switch string(name) {
		case "metadata":
			o.Read(r, true)
		case "spec":
			o.Spec, _ = r.Value().(map[string]any)
		case "status":
			o.Status, _ = r.Value().(map[string]any)
		}
	})
	return o, r.End()
}

// DecodeList reads the JSON of a LIST, and calls each with every object. It omits none: it fails if the text is no list
// of the kind, or an object has no name.
func DecodeList[T any, P readable[T]](text []byte, each func(P)) (metav1.ListMeta, error) {
	return lean.List(text, P.kind(nil), func(object []byte, _ bool) error {
		o, err := decode(object)
		if err == nil && (o.Namespace == "" || o.Name == "") {
			err = fmt.Errorf("an object without a namespace or a name: %q", o.NamespacedName)
		}
		if err != nil {
			return err
		}
		v := P(new(T))
		v.read(o)
		each(v)
		return nil
	})
}

// object is what is read of an object. A field of another type than it must have is omitted.
type object struct {
	lean.Metadata
	Spec, Status map[string]any
}

// objectOf is what is read of an object that was decoded as a whole.
func objectOf(u *unstructured.Unstructured) *object {
	o := &object{}
	o.Spec, _ = u.Object["spec"].(map[string]any)
	o.Status, _ = u.Object["status"].(map[string]any)
	o.Namespace, o.Name, o.Annotations = u.GetNamespace(), u.GetName(), u.GetAnnotations()
	o.UID, o.ResourceVersion = string(u.GetUID()), u.GetResourceVersion()
	fields, _ := u.Object["metadata"].(map[string]any)
	o.CreationTimestamp, _ = fields["creationTimestamp"].(string)
	o.DeletionTimestamp, _ = fields["deletionTimestamp"].(string)
	o.HasFinalizers = len(u.GetFinalizers()) > 0
	return o
}

// name is the name of the object with one text for all equal namespaces.
func (o *object) name() types.NamespacedName {
	return types.NamespacedName{Namespace: intern(o.Namespace), Name: o.Name}
}

// textField is a field that holds a text, and where to put it.
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

func intern(text string) string { return unique.Make(text).Value() }
