package ippool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var groupVersion = schema.GroupVersion{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1"}

// The resources of whereabouts.
var (
	PoolResource        = groupVersion.WithResource("ippools")
	ReservationResource = groupVersion.WithResource("overlappingrangeipreservations")
)

// PausedAnnotation on an IPPool, or on the reconciler's namespace, pauses releases. See Pauses for its values.
const PausedAnnotation = "ip-reconcile.dev/paused"

// NoUsageAlertsAnnotation on an IPPool switches off the warnings that it is nearly full. It has the same values.
const NoUsageAlertsAnnotation = "ip-reconcile.dev/no-usage-alerts"

// Pauses reports whether PausedAnnotation is set, with any value but false, no, off and 0 in any case. An empty value
// pauses.
func Pauses(annotations map[string]string) bool { return isSet(annotations, PausedAnnotation) }

func isSet(annotations map[string]string, name string) bool {
	value, there := annotations[name]
	return there && !slices.Contains([]string{"false", "no", "off", "0"}, pauseWord(value))
}

// UnknownPause is a value of PausedAnnotation that means neither yes nor no, "" for none. It pauses.
func UnknownPause(annotations map[string]string) string {
	value := annotations[PausedAnnotation]
	if Pauses(annotations) && !slices.Contains([]string{"true", "yes", "on", "1", ""}, pauseWord(value)) {
		return value
	}
	return ""
}

func pauseWord(value string) string { return strings.ToLower(strings.TrimSpace(value)) }

// Problem is why an object cannot be judged. The values are also reasons of verdicts.
type Problem string

const (
	Malformed    Problem = "Malformed"    // a range, key, podref or entry cannot be parsed
	UnknownField Problem = "UnknownField" // an entry has a field that this version does not know
	// UnsupportedRange: a key of the pool may mean several addresses, see Range.Unsupported.
	UnsupportedRange Problem = "UnsupportedRange"
)

// Pool is an IPPool. Problem says why it cannot be parsed; then all of its allocations are Malformed. Unsupported says
// why its keys may mean several addresses; then all of its allocations are UnsupportedRange.
type Pool struct {
	types.NamespacedName
	UID, ResourceVersion string
	RangeText            string
	Range                Range        `json:"-"`
	Allocations          []Allocation // by address, then key
	Paused               bool
	NoUsageAlerts        bool
	Problem              string
	Unsupported          string `json:"-"` // see Range.Unsupported
	NoMap                bool   // spec.allocations is missing: an entry cannot be added by its key
	HasFinalizers        bool   `json:"-"` // a delete would not end it at once
	IsDeleting           bool   `json:"-"` // it exists until its finalizers are removed

	unsliced bool // the pool is not the slice of a node, whatever its name is
}

// Allocation is an entry of a pool. Key, ContainerID, PodRef and IfName are as they are stored, for patches. With a
// Problem, Detail says what is wrong, and the fields that cannot be parsed are zero.
type Allocation struct {
	Key, ContainerID, PodRef, IfName string
	Owner                            PodRef                `json:"-"`
	Offset                           uint64                `json:"-"`
	Address                          netip.Addr            `json:"-"`
	Claim                            *types.NamespacedName // the IPAMClaim that keeps the address; nil for none
	Problem                          Problem
	Detail                           string

	HasID, HasIfName bool // the field is stored, maybe as ""
}

// Entry is an allocation as it is stored; nil fields are missing.
type Entry struct {
	ID     *string `json:"id,omitempty"`
	PodRef *string `json:"podref,omitempty"`
	IfName *string `json:"ifname,omitempty"`
	Claim  *string `json:"ipamclaimref,omitempty"`
}

// Entry is what a patch tests. Without a Problem it is the whole entry.
func (a *Allocation) Entry() Entry {
	e := Entry{PodRef: &a.PodRef}
	if a.HasID {
		e.ID = &a.ContainerID
	}
	if a.HasIfName {
		e.IfName = &a.IfName
	}
	if a.Claim != nil {
		claim := a.Claim.String()
		e.Claim = &claim
	}
	return e
}

// NewPool is the empty pool that an ADD creates for a network's range without slices (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, getPool). It is not stored.
func NewPool(namespace, network string, r netip.Prefix) *Pool {
	p := &Pool{RangeText: r.Masked().String(), unsliced: true}
	p.Namespace, p.Name = namespace, PoolName(network, r)
	p.readRange()
	return p
}

func (p *Pool) readRange() {
	var err error
	if p.Range, err = ParseRange(p.RangeText); err == nil {
		p.Unsupported = p.Range.Unsupported()
	} else if p.Problem == "" {
		p.Problem = "spec." + err.Error()
	}
}

// AsNew is the object that creates the pool with these entries.
func (p *Pool) AsNew(entries []NewEntry) *unstructured.Unstructured {
	allocations := make(map[string]any, len(entries))
	for i := range entries {
		e := &entries[i]
		entry := map[string]any{"id": e.ContainerID, "podref": e.PodRef}
		if e.IfName != "" {
			entry["ifname"] = e.IfName
		}
		allocations[e.Key] = entry
	}
	return newObject("IPPool", p.Namespace, p.Name, map[string]any{"range": p.RangeText, "allocations": allocations})
}

// newObject is an object of whereabouts that is not stored yet.
func newObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": groupVersion.String(), "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec}}
}

func (p *Pool) read(o *object) {
	p.NamespacedName, p.UID, p.ResourceVersion = o.name(), o.UID, o.ResourceVersion
	p.Paused, p.NoUsageAlerts = Pauses(o.Annotations), isSet(o.Annotations, NoUsageAlertsAnnotation)
	p.HasFinalizers, p.IsDeleting = o.HasFinalizers, o.DeletionTimestamp != ""
	rangeText, _ := o.Spec["range"].(string)
	p.RangeText = intern(rangeText)
	entries, isMap := o.Spec["allocations"].(map[string]any)
	if p.NoMap = !isMap; p.NoMap && o.Spec["allocations"] != nil {
		p.Problem = "spec.allocations is not a map"
	}
	p.Allocations = make([]Allocation, 0, len(entries))
	for key, entry := range entries {
		p.Allocations = append(p.Allocations, readEntry(key, entry))
	}
	p.Complete()
}

// Complete sets the fields that JSON omits, for a pool that was decoded from JSON.
func (p *Pool) Complete() {
	p.readRange()
	for i := range p.Allocations {
		a := &p.Allocations[i]
		a.readOwner()
		a.place(p)
	}
	slices.SortFunc(p.Allocations, byAddress)
}

func readEntry(key string, entry any) Allocation {
	a := Allocation{Key: key}
	fields, isObject := entry.(map[string]any)
	if !isObject {
		a.Problem, a.Detail = Malformed, fmt.Sprintf("entry %q is not an object", key)
		return a
	}
	var claim string
	a.Problem, a.Detail = readFields(fields, textField{"id", &a.ContainerID}, textField{"podref", &a.PodRef},
		textField{"ifname", &a.IfName}, textField{ClaimField, &claim})
	_, a.HasID = fields["id"]
	_, a.HasIfName = fields["ifname"]
	if _, hasClaim := fields[ClaimField]; hasClaim && a.Problem == "" {
		a.Claim, a.Problem, a.Detail = parseClaimRef(claim)
	}
	a.IfName = intern(a.IfName)
	return a
}

func (a *Allocation) readOwner() {
	var err error
	if a.Owner, err = ParsePodRef(a.PodRef); err != nil {
		a.malformed(err.Error())
	}
}

// place finds the entry's address by its key: the one that whereabouts reads there. In an Unsupported range the entry
// may have been written for another one.
func (a *Allocation) place(p *Pool) {
	var err error
	if p.Problem != "" {
		a.malformed(p.Problem)
	} else if a.Offset, err = ParseKey(a.Key); err != nil {
		a.malformed(err.Error())
	} else if a.Address, err = p.Range.Address(a.Offset); err != nil {
		a.malformed(fmt.Sprintf("key %q: %v (%s)", a.Key, err, p.RangeText))
	}
	if p.Problem == "" && p.Unsupported != "" { // whatever else is wrong with the entry
		a.Problem, a.Detail = UnsupportedRange, p.Unsupported
	}
}

// Ref names the pool as "<namespace>/<name>".
func (p *Pool) Ref() string { return p.Namespace + "/" + p.Name }

// Find is the allocation with this key, nil for none.
func (p *Pool) Find(key string) *Allocation {
	a := Allocation{Key: key}
	a.place(p)
	if i, found := slices.BinarySearchFunc(p.Allocations, a, byAddress); found {
		return &p.Allocations[i]
	}
	return nil
}

// Without is a copy of the pool after RemovePatch, with the resourceVersion that the API server returned.
func (p *Pool) Without(entries []Allocation, resourceVersion string) *Pool {
	gone := map[string]bool{}
	for i := range entries {
		gone[entries[i].Key] = true
	}
	after := *p
	after.ResourceVersion = resourceVersion
	after.Allocations = slices.DeleteFunc(slices.Clone(p.Allocations), func(a Allocation) bool { return gone[a.Key] })
	return &after
}

// With is a copy of the pool after WritePatch, with the resourceVersion that the API server returned.
func (p *Pool) With(entries []NewEntry, resourceVersion string) *Pool {
	added := make([]Allocation, len(entries))
	for i := range entries {
		e, a := &entries[i], &added[i]
		*a = Allocation{Key: e.Key, ContainerID: e.ContainerID, PodRef: e.PodRef, IfName: e.IfName,
			HasID: true, HasIfName: e.IfName != ""}
		a.readOwner()
		a.place(p)
	}
	after := p.Without(added, resourceVersion)
	after.NoMap = false
	after.Allocations = append(after.Allocations, added...)
	slices.SortFunc(after.Allocations, byAddress)
	return after
}

func byAddress(a, b Allocation) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Key, b.Key))
}

// malformed sets the first detail. Malformed replaces UnknownField.
func (a *Allocation) malformed(detail string) {
	if a.Problem != Malformed {
		a.Problem, a.Detail = Malformed, detail
	}
}
