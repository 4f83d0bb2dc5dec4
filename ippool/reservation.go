package ippool

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Reservation is an OverlappingRangeIPReservation.
type Reservation struct {
	types.NamespacedName
	UID, ResourceVersion string
	PodRef, IfName       string
	Owner                PodRef `json:"-"` // of PodRef
	Created              time.Time
	Deleting             bool                  // it exists until its finalizers are removed
	Claim                *types.NamespacedName // the IPAMClaim that keeps the address; nil for none
	Problem              Problem
	Detail               string
	ContainerID          string // whereabouts does not set it
	HasIfName            bool
}

// ReadReservation parses a reservation. Problem says what cannot be parsed.
func ReadReservation(o *unstructured.Unstructured) *Reservation { return readReservation(objectOf(o)) }

func readReservation(o *object) *Reservation {
	m := &o.Metadata
	r := &Reservation{NamespacedName: m.name(), UID: m.UID, ResourceVersion: m.ResourceVersion,
		Deleting: m.DeletionTimestamp != ""}
	r.Created, _ = time.Parse(time.RFC3339, m.CreationTimestamp)
	var claim string
	spec, isObject := o.spec()
	if !isObject {
		r.Problem, r.Detail = Malformed, "spec is missing"
	} else {
		r.Problem, r.Detail = readFields(spec, textField{"podref", &r.PodRef}, textField{"ifname", &r.IfName},
			textField{"containerid", &r.ContainerID}, textField{ClaimField, &claim})
		_, r.HasIfName = spec["ifname"]
	}
	if _, hasClaim := spec[ClaimField]; hasClaim && r.Problem == "" {
		r.Claim, r.Problem, r.Detail = parseClaimRef(claim)
	}
	var err error
	if r.Owner, err = ParsePodRef(r.PodRef); err != nil && r.Problem != Malformed {
		r.Problem, r.Detail = Malformed, err.Error()
	}
	r.IfName = intern(r.IfName)
	return r
}

// Ref names the reservation as "<namespace>/<name>".
func (r *Reservation) Ref() string { return r.Namespace + "/" + r.Name }

// AsNew is the object that recreates a deleted reservation without a Problem.
func (r *Reservation) AsNew() *unstructured.Unstructured {
	o := reservationObject(r.Namespace, r.Name, r.PodRef)
	spec := o.Object["spec"].(map[string]any)
	if r.HasIfName {
		spec["ifname"] = r.IfName
	}
	if r.ContainerID != "" {
		spec["containerid"] = r.ContainerID
	}
	if r.Claim != nil {
		spec[ClaimField] = r.Claim.String()
	}
	return o
}

// NewReservation is the object that an ADD creates for an address (whereabouts v0.9.4,
// UpdateOverlappingRangeAllocation).
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
