package ippool

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The whereabouts resources, as they are served.
var (
	PoolResource        = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "ippools"}
	ReservationResource = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "overlappingrangeipreservations"}
)

// PausedAnnotation on an IPPool, or on the reconciler's namespace, stops every
// release; judging goes on.
const PausedAnnotation = "ip-reconcile.dev/paused"

// Problem is why an object cannot be judged. The values are verdict reasons.
type Problem string

const (
	// Malformed: a range, key, podref or entry that cannot be read.
	Malformed Problem = "Malformed"
	// UnknownField: an entry carries a field that this version does not know,
	// and so may mean something that it does not know.
	UnknownField Problem = "UnknownField"
)

// Pool is one IPPool. Problem is set where its range cannot be read; then every
// allocation in it is Malformed too.
type Pool struct {
	Namespace, Name      string
	UID, ResourceVersion string
	RangeText            string
	Range                Range
	Allocations          []Allocation // by address, then key
	Paused               bool
	Problem              string
	Object               *unstructured.Unstructured
}

// Allocation is one entry of a pool. Key and Entry are kept verbatim: they are
// what a patch tests and removes. With a Problem the fields that could not be
// read are zero, and Detail says what is wrong.
type Allocation struct {
	Key, ContainerID, PodRef, IfName string
	Owner                            PodRef
	Offset                           uint64
	Address                          netip.Addr
	Entry                            any
	Problem                          Problem
	Detail                           string
}

// ReadPool reads an IPPool object. It never fails: what cannot be read is said
// in Problem, of the pool or of the entry.
func ReadPool(o *unstructured.Unstructured) *Pool {
	p := &Pool{
		Namespace: o.GetNamespace(), Name: o.GetName(),
		UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		Paused: o.GetAnnotations()[PausedAnnotation] == "true", Object: o,
	}
	spec, _ := o.Object["spec"].(map[string]any)
	p.RangeText, _ = spec["range"].(string)
	var err error
	if p.Range, err = ParseRange(p.RangeText); err != nil {
		p.Problem = "spec." + err.Error()
	}
	entries, ok := spec["allocations"].(map[string]any)
	if raw, there := spec["allocations"]; !ok && there && raw != nil {
		p.Problem = "spec.allocations is not a map"
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		p.Allocations = append(p.Allocations, p.readAllocation(key, entries[key]))
	}
	slices.SortStableFunc(p.Allocations, func(a, b Allocation) int { return a.Address.Compare(b.Address) })
	return p
}

// Ref names the pool as "<namespace>/<name>".
func (p *Pool) Ref() string { return p.Namespace + "/" + p.Name }

// Find is the allocation with this very key, nil if there is none.
func (p *Pool) Find(key string) *Allocation {
	for i := range p.Allocations {
		if p.Allocations[i].Key == key {
			return &p.Allocations[i]
		}
	}
	return nil
}

func (p *Pool) readAllocation(key string, entry any) Allocation {
	a := Allocation{Key: key, Entry: entry}
	fields, ok := entry.(map[string]any)
	if !ok {
		a.Problem, a.Detail = Malformed, fmt.Sprintf("entry %q is not an object", key)
		return a
	}
	a.Problem, a.Detail = readFields(fields, map[string]*string{"id": &a.ContainerID, "podref": &a.PodRef, "ifname": &a.IfName})
	var err error
	if a.Owner, err = ParsePodRef(a.PodRef); err != nil {
		a.malformed(err.Error())
	}
	if p.Problem != "" {
		a.malformed(p.Problem)
		return a
	}
	if a.Offset, err = ParseKey(key); err != nil {
		a.malformed(err.Error())
	} else if a.Address, err = p.Range.Address(a.Offset); err != nil {
		a.malformed(fmt.Sprintf("key %q: %v (%s)", key, err, p.RangeText))
	}
	return a
}

// malformed keeps the first thing found wrong, except that a broken entry is
// the graver finding than one with an unknown field.
func (a *Allocation) malformed(detail string) {
	if a.Problem != Malformed {
		a.Problem, a.Detail = Malformed, detail
	}
}

// readFields copies the string fields that are known and tells of the others.
func readFields(fields map[string]any, known map[string]*string) (Problem, string) {
	var unknown, broken []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		target, ok := known[name]
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		if *target, ok = fields[name].(string); !ok {
			broken = append(broken, name)
		}
	}
	switch {
	case len(broken) > 0:
		return Malformed, "not a string: " + strings.Join(broken, ", ")
	case len(unknown) > 0:
		return UnknownField, "a field that is not known here: " + strings.Join(unknown, ", ")
	}
	return "", ""
}

// Reservation is one OverlappingRangeIPReservation.
type Reservation struct {
	Namespace, Name      string
	UID, ResourceVersion string
	PodRef, IfName       string
	Owner                PodRef
	Created              time.Time
	Problem              Problem
	Detail               string
	Object               *unstructured.Unstructured
}

// ReadReservation reads a reservation; what cannot be read is said in Problem.
func ReadReservation(o *unstructured.Unstructured) *Reservation {
	r := &Reservation{
		Namespace: o.GetNamespace(), Name: o.GetName(),
		UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		Created: o.GetCreationTimestamp().Time, Object: o,
	}
	spec, ok := o.Object["spec"].(map[string]any)
	if !ok {
		r.Problem, r.Detail = Malformed, "spec is missing"
		return r
	}
	var containerID string // never set by whereabouts to this day
	r.Problem, r.Detail = readFields(spec, map[string]*string{"podref": &r.PodRef, "ifname": &r.IfName, "containerid": &containerID})
	var err error
	if r.Owner, err = ParsePodRef(r.PodRef); err != nil && r.Problem != Malformed {
		r.Problem, r.Detail = Malformed, err.Error()
	}
	return r
}

// Ref names the reservation as "<namespace>/<name>".
func (r *Reservation) Ref() string { return r.Namespace + "/" + r.Name }

// NewReservation is the object that whereabouts' ADD creates for an address
// (v0.9.4, UpdateOverlappingRangeAllocation).
func NewReservation(namespace, network string, a netip.Addr, podRef, ifName string) *unstructured.Unstructured {
	spec := map[string]any{"podref": podRef}
	if ifName != "" {
		spec["ifname"] = ifName
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ReservationResource.GroupVersion().String(),
		"kind":       "OverlappingRangeIPReservation",
		"metadata":   map[string]any{"namespace": namespace, "name": ReservationName(network, a)},
		"spec":       spec,
	}}
}
