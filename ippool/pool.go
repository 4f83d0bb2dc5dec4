package ippool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// The whereabouts resources, as they are served.
var (
	PoolResource        = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "ippools"}
	ReservationResource = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "overlappingrangeipreservations"}
)

// PausedAnnotation on an IPPool, or on the reconciler's namespace, stops every
// release; judging goes on. Pauses tells by which values.
const PausedAnnotation = "ip-reconcile.dev/paused"

// NoUsageAlertsAnnotation on an IPPool switches off the warnings that it is nearly full, by the same values.
const NoUsageAlertsAnnotation = "ip-reconcile.dev/no-usage-alerts"

// Pauses reports whether the annotation is among these, with any value but false, no, off and 0 in any
// case: an operator who writes yes, 1 or nothing wants a stop.
func Pauses(annotations map[string]string) bool {
	value, there := annotations[PausedAnnotation]
	return there && isYes(value)
}

func isYes(value string) bool {
	return !slices.Contains([]string{"false", "no", "off", "0"}, pauseWord(value))
}

// UnknownPause returns a value of the annotation that is no known word for yes or no; "" for none. It pauses.
func UnknownPause(annotations map[string]string) string {
	value := annotations[PausedAnnotation]
	if Pauses(annotations) && !slices.Contains([]string{"true", "yes", "on", "1", ""}, pauseWord(value)) {
		return value
	}
	return ""
}

func pauseWord(value string) string { return strings.ToLower(strings.TrimSpace(value)) }

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
	NoUsageAlerts        bool
	Problem              string

	noMap    bool // spec.allocations is not there: an entry cannot be added by its key
	unsliced bool // it is no node's slice, whatever its name says
}

// Allocation is one entry of a pool. Key, ContainerID, PodRef and IfName are as
// they are stored: they are what a patch tests and removes. With a Problem the
// fields that could not be read are zero, and Detail is what is wrong.
type Allocation struct {
	Key, ContainerID, PodRef, IfName string
	Owner                            PodRef
	Offset                           uint64
	Address                          netip.Addr
	Problem                          Problem
	Detail                           string

	hasID, hasIfName bool // stored at all, be it as ""
}

// Entry is an allocation as it is stored; nil fields are not there.
type Entry struct {
	ID     *string `json:"id,omitempty"`
	PodRef *string `json:"podref,omitempty"`
	IfName *string `json:"ifname,omitempty"`
}

// Entry is what a patch tests. It is the whole entry only of an allocation
// without a Problem.
func (a *Allocation) Entry() Entry {
	e := Entry{PodRef: &a.PodRef}
	if a.hasID {
		e.ID = &a.ContainerID
	}
	if a.hasIfName {
		e.IfName = &a.IfName
	}
	return e
}

// NewPool is the pool that whereabouts makes, empty, for a network's range when an ADD finds
// none (v0.9.4, pkg/storage/kubernetes/ipam.go, getPool); the range is not cut into slices.
// The pool is not stored.
func NewPool(namespace, network string, r netip.Prefix) *Pool {
	p := &Pool{Namespace: namespace, Name: PoolName(network, r), RangeText: r.Masked().String(), unsliced: true}
	var err error
	if p.Range, err = ParseRange(p.RangeText); err != nil {
		p.Problem = "spec." + err.Error()
	}
	return p
}

// AsNew is the object to create for a pool that is not stored, with these entries.
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
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": PoolResource.GroupVersion().String(),
		"kind":       "IPPool",
		"metadata":   map[string]any{"namespace": p.Namespace, "name": p.Name},
		"spec":       map[string]any{"range": p.RangeText, "allocations": allocations},
	}}
}

// ReadPool reads an IPPool object as DecodePool does its JSON.
func ReadPool(o *unstructured.Unstructured) *Pool {
	p, err := decodeObject(o, readPool)
	if err != nil {
		return &Pool{Namespace: o.GetNamespace(), Name: o.GetName(), Problem: err.Error()}
	}
	return p
}

// DecodePool reads the JSON of an IPPool. What cannot be read is in
// Problem, of the pool or of the entry; it is an error only where the text is
// not JSON. Nothing of the text is kept.
func DecodePool(text []byte) (*Pool, error) { return decode(text, readPool) }

func readPool(r *lean.Reader) *Pool {
	p, problem := &Pool{noMap: true}, ""
	var meta metadata
	r.Object(func(name []byte) {
		switch string(name) {
		case "metadata":
			meta = readMetadata(r)
		case "spec":
			p.RangeText, p.Allocations, p.noMap, problem = "", nil, true, ""
			r.Object(func(name []byte) {
				switch string(name) {
				case "range":
					p.RangeText = internedText(r)
				case "allocations":
					problem = p.readAllocations(r)
				}
			})
		}
	})
	p.Namespace, p.Name, p.UID, p.ResourceVersion = meta.namespace, meta.name, meta.uid, meta.resourceVersion
	p.Paused, p.NoUsageAlerts = meta.paused, meta.noUsageAlerts
	var err error
	if p.Range, err = ParseRange(p.RangeText); err != nil {
		p.Problem = "spec." + err.Error()
	}
	p.Problem = cmp.Or(problem, p.Problem)
	for i := range p.Allocations {
		p.Allocations[i].place(p)
	}
	slices.SortFunc(p.Allocations, byAddress)
	return p
}

// readAllocations reads the entries; place has to follow. The API server sends
// them by key. Of a key that stands twice the last entry counts, as it does for
// every JSON reader of Kubernetes.
func (p *Pool) readAllocations(r *lean.Reader) (problem string) {
	p.Allocations, p.noMap = nil, true
	if r.Null() {
		return ""
	}
	ordered := true
	if !r.Object(func(name []byte) {
		key := string(name)
		if n := len(p.Allocations); n > 0 && p.Allocations[n-1].Key >= key {
			ordered = false
		}
		p.Allocations = append(p.Allocations, readEntry(r, key))
	}) {
		return "spec.allocations is not a map"
	}
	p.noMap = false
	if !ordered {
		slices.Reverse(p.Allocations)
		slices.SortStableFunc(p.Allocations, func(a, b Allocation) int { return cmp.Compare(a.Key, b.Key) })
		p.Allocations = slices.CompactFunc(p.Allocations, func(a, b Allocation) bool { return a.Key == b.Key })
	}
	return ""
}

func readEntry(r *lean.Reader, key string) Allocation {
	a := Allocation{Key: key}
	fields := [...]field{{name: "id"}, {name: "podref"}, {name: "ifname", shared: true}}
	var object bool
	if object, a.Problem, a.Detail = readFields(r, fields[:]); !object {
		a.Problem, a.Detail = Malformed, fmt.Sprintf("entry %q is not an object", key)
		return a
	}
	a.ContainerID, a.PodRef, a.IfName = fields[0].text, fields[1].text, fields[2].text
	a.hasID, a.hasIfName = fields[0].there, fields[2].there
	a.readOwner()
	return a
}

func (a *Allocation) readOwner() {
	var err error
	if a.Owner, err = ParsePodRef(a.PodRef); err != nil {
		a.malformed(err.Error())
	}
}

// place finds the entry's address by its key.
func (a *Allocation) place(p *Pool) {
	var err error
	if p.Problem != "" {
		a.malformed(p.Problem)
	} else if a.Offset, err = ParseKey(a.Key); err != nil {
		a.malformed(err.Error())
	} else if a.Address, err = p.Range.Address(a.Offset); err != nil {
		a.malformed(fmt.Sprintf("key %q: %v (%s)", a.Key, err, p.RangeText))
	}
}

// Ref names the pool as "<namespace>/<name>".
func (p *Pool) Ref() string { return p.Namespace + "/" + p.Name }

// Find is the allocation with this very key, nil if there is none.
func (p *Pool) Find(key string) *Allocation {
	if i, found := p.find(key); found {
		return &p.Allocations[i]
	}
	return nil
}

func (p *Pool) find(key string) (int, bool) {
	a := Allocation{Key: key}
	a.place(p)
	return sort.Find(len(p.Allocations), func(i int) int {
		b := &p.Allocations[i]
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(key, b.Key))
	})
}

// Without is the pool after the patch that removes these entries, as the API
// server stored it at the given resourceVersion. The pool itself stays as it is.
func (p *Pool) Without(entries []Allocation, resourceVersion string) *Pool {
	gone := make([]bool, len(p.Allocations))
	for i := range entries {
		if at, found := p.find(entries[i].Key); found {
			gone[at] = true
		}
	}
	after := *p
	after.ResourceVersion = resourceVersion
	after.Allocations = make([]Allocation, 0, len(p.Allocations))
	for i := range p.Allocations {
		if !gone[i] {
			after.Allocations = append(after.Allocations, p.Allocations[i])
		}
	}
	return &after
}

// With is the pool after the patch that writes these entries, as the API server
// stored it at the given resourceVersion. The pool itself stays as it is.
func (p *Pool) With(entries []NewEntry, resourceVersion string) *Pool {
	replaced := make([]Allocation, len(entries))
	for i := range entries {
		replaced[i].Key = entries[i].Key
	}
	after := p.Without(replaced, resourceVersion)
	after.noMap = false
	for i := range entries {
		e := &entries[i]
		a := Allocation{Key: e.Key, ContainerID: e.ContainerID, PodRef: e.PodRef, IfName: e.IfName, hasID: true, hasIfName: e.IfName != ""}
		a.readOwner()
		a.place(p)
		after.Allocations = append(after.Allocations, a)
	}
	slices.SortFunc(after.Allocations, byAddress)
	return after
}

func byAddress(a, b Allocation) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Key, b.Key))
}

// malformed keeps the first thing found wrong, except that a broken entry is
// the graver finding than one with an unknown field.
func (a *Allocation) malformed(detail string) {
	if a.Problem != Malformed {
		a.Problem, a.Detail = Malformed, detail
	}
}

// field is a text that an entry or a reservation's spec may have.
type field struct {
	name   string
	shared bool // many have the same text
	text   string
	there  bool
	broken bool // it is there and not a text
}

// readFields reads the fields that are known and reports the others. It
// reports whether there was an object at all.
func readFields(r *lean.Reader, known []field) (object bool, problem Problem, detail string) {
	var unknown, broken []string
	object = r.Object(func(name []byte) {
		for i := range known {
			f := &known[i]
			if string(name) != f.name {
				continue
			}
			text, ok := r.String()
			f.there, f.broken = true, !ok
			if f.shared {
				f.text = intern(text)
			} else {
				f.text = string(text)
			}
			return
		}
		unknown = append(unknown, string(name))
	})
	for i := range known {
		if known[i].broken {
			broken = append(broken, known[i].name)
		}
	}
	switch {
	case len(broken) > 0:
		return object, Malformed, "not a string: " + listed(broken)
	case len(unknown) > 0:
		return object, UnknownField, "a field that is not known here: " + listed(unknown)
	}
	return object, "", ""
}

func listed(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
