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

func (r *Reservation) read(o *object) {
	r.NamespacedName, r.UID, r.ResourceVersion = o.name(), o.UID, o.ResourceVersion
	r.Deleting = o.DeletionTimestamp != ""
	r.Created, _ = time.Parse(time.RFC3339, o.CreationTimestamp)
	var claim string
	if o.Spec == nil {
		r.Problem, r.Detail = Malformed, "spec is missing"
	} else {
		r.Problem, r.Detail = readFields(o.Spec, textField{"podref", &r.PodRef}, textField{"ifname", &r.IfName},
			textField{"containerid", &r.ContainerID}, textField{ClaimField, &claim})
		_, r.HasIfName = o.Spec["ifname"]
	}
	if _, hasClaim := o.Spec[ClaimField]; hasClaim && r.Problem == "" {
		r.Claim, r.Problem, r.Detail = parseClaimRef(claim)
	}
	r.readOwner()
	r.IfName = intern(r.IfName)
}

func (r *Reservation) readOwner() {
	var err error
	if r.Owner, err = ParsePodRef(r.PodRef); err != nil && r.Problem != Malformed {
		r.Problem, r.Detail = Malformed, err.Error()
	}
}

// Ref names the reservation as "<namespace>/<name>".
func (r *Reservation) Ref() string { return r.Namespace + "/" + r.Name }

// NewReservation is what an ADD creates for an address (whereabouts v0.9.4, UpdateOverlappingRangeAllocation).
func NewReservation(namespace, network string, a netip.Addr, podRef, ifName string) *Reservation {
	r := &Reservation{PodRef: podRef, IfName: ifName, HasIfName: ifName != ""}
	r.Namespace, r.Name = namespace, ReservationName(network, a)
	r.readOwner()
	return r
}

// AsNew is the object that creates the reservation, which has no Problem, also again.
func (r *Reservation) AsNew() *unstructured.Unstructured {
	spec := map[string]any{"podref": r.PodRef}
	if r.HasIfName {
		spec["ifname"] = r.IfName
	}
	if r.ContainerID != "" {
		spec["containerid"] = r.ContainerID
	}
	if r.Claim != nil {
		spec[ClaimField] = r.Claim.String()
	}
	return newObject("OverlappingRangeIPReservation", r.Namespace, r.Name, spec)
}
