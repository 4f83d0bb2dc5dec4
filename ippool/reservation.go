package ippool

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json" // whole numbers stay whole

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// Reservation is one OverlappingRangeIPReservation.
type Reservation struct {
	Namespace, Name      string
	UID, ResourceVersion string
	PodRef, IfName       string
	Owner                PodRef
	Created              time.Time
	Deleting             bool // it is there until its finalizers are gone
	Problem              Problem
	Detail               string

	hasIfName bool
	stored    []byte // the object's JSON, where there is more to it than whereabouts writes
}

// ReadReservation reads a reservation as DecodeReservation does its JSON.
func ReadReservation(o *unstructured.Unstructured) *Reservation {
	r, err := decodeObject(o, readReservation)
	if err != nil {
		return &Reservation{Namespace: o.GetNamespace(), Name: o.GetName(), Problem: Malformed, Detail: err.Error()}
	}
	return r
}

// DecodeReservation reads the JSON of a reservation. What cannot be read is
// in Problem; it is an error only where the text is not JSON.
func DecodeReservation(text []byte) (*Reservation, error) { return decode(text, readReservation) }

func readReservation(r *lean.Reader) *Reservation {
	text := r.Raw()
	r = lean.New(text) // Raw has found it to be JSON
	res := &Reservation{Problem: Malformed, Detail: "spec is missing"}
	var meta metadata
	more := false
	r.Object(func(name []byte) {
		switch string(name) {
		case "apiVersion", "kind":
		case "metadata":
			meta = readMetadata(r)
		case "spec":
			// containerid is never set by whereabouts to this day.
			fields := [...]field{{name: "podref"}, {name: "ifname", shared: true}, {name: "containerid"}}
			object, problem, detail := readFields(r, fields[:])
			if !object {
				problem, detail = Malformed, "spec is missing"
			}
			res.PodRef, res.IfName, res.hasIfName = fields[0].text, fields[1].text, fields[1].there
			res.Problem, res.Detail = problem, detail
			more = more || fields[2].there
		default:
			more = true
		}
	})
	res.Namespace, res.Name, res.UID, res.ResourceVersion = meta.namespace, meta.name, meta.uid, meta.resourceVersion
	if t, err := time.Parse(time.RFC3339, meta.created); err == nil {
		res.Created = t.Local()
	}
	deleted, err := time.Parse(time.RFC3339, meta.deleted)
	res.Deleting = err == nil && !deleted.IsZero()
	if res.Owner, err = ParsePodRef(res.PodRef); err != nil && res.Problem != Malformed {
		res.Problem, res.Detail = Malformed, err.Error()
	}
	if res.Problem != "" || more || meta.more {
		res.stored = slices.Clone(text)
	}
	return res
}

// Ref names the reservation as "<namespace>/<name>".
func (r *Reservation) Ref() string { return r.Namespace + "/" + r.Name }

// AsNew is the object to create in order to have a reservation again that was
// deleted: all of it but what the API server sets.
func (r *Reservation) AsNew() *unstructured.Unstructured {
	o := reservationObject(r.Namespace, r.Name, r.PodRef)
	if r.hasIfName {
		o.Object["spec"].(map[string]any)["ifname"] = r.IfName
	}
	if r.stored == nil {
		return o
	}
	whole := &unstructured.Unstructured{}
	if err := kjson.Unmarshal(r.stored, &whole.Object); err != nil {
		return o
	}
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(whole.Object, "metadata", field)
	}
	return whole
}

// NewReservation is the object that whereabouts' ADD creates for an address
// (v0.9.4, UpdateOverlappingRangeAllocation).
func NewReservation(namespace, network string, a netip.Addr, podRef, ifName string) *unstructured.Unstructured {
	o := reservationObject(namespace, ReservationName(network, a), podRef)
	if ifName != "" {
		o.Object["spec"].(map[string]any)["ifname"] = ifName
	}
	return o
}

func reservationObject(namespace, name, podRef string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ReservationResource.GroupVersion().String(),
		"kind":       "OverlappingRangeIPReservation",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"spec":       map[string]any{"podref": podRef},
	}}
}
