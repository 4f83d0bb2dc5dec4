package explain

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func patchOf(operations ...operation) string {
	text, _ := json.Marshal(operations) // texts alone
	return string(text)
}

// nameMends adds the names of the patches that mend what cannot be parsed of an item. Each tests what it changes.
func (a *answer) nameMends(it *judge.Item, names map[string]string) {
	owner := a.ownerOf(it)
	switch {
	case it.Reservation != nil:
		names["badreservation"] = it.Object()
		for _, r := range it.Related() {
			if _, err := ippool.ParsePodRef(r.PodRef()); err == nil && it.Owner().Name == "" {
				names["recordpod"] = r.PodRef()
				names["reservationpatch"] = patchOf(operation{"add", "/spec/podref", r.PodRef()})
			}
		}
	case it.Pool.Problem != "":
		a.nameRange(it.Pool, names)
	case it.ContainerID() != "":
		entry := "/spec/allocations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(it.Key())
		test := operation{"test", entry + "/id", it.ContainerID()}
		names["badentry"] = it.Key()
		names["removal"] = patchOf(test, operation{Op: "remove", Path: entry})
		if owner != "" && it.Owner().Name == "" {
			names["recordpod"] = owner
			names["podrefpatch"] = patchOf(test, operation{"add", entry + "/podref", owner})
		}
	default:
		names["badpool"] = it.Object()
	}
}

// ownerOf returns the pod of the item's sandbox by a report, "" where none has it.
func (a *answer) ownerOf(it *judge.Item) string {
	for _, b := range a.sandboxes {
		if b.ID == it.ContainerID() && b.Pod.Name != "" {
			return b.Pod.String()
		}
	}
	return ""
}

// nameRange adds the patch of a pool whose range cannot be parsed, if a definition has the range of the pool's name.
// Otherwise a person has to know the range.
func (a *answer) nameRange(p *ippool.Pool, names map[string]string) {
	if p.Problem == "" {
		return
	}
	for _, nad := range a.Observation.NADs.Or(nil) {
		for _, n := range nad.Networks {
			for _, r := range n.Ranges {
				if ippool.PoolName(n.Name, r) == p.Name {
					names["range"] = r.Masked().String()
					names["rangepatch"] = patchOf(operation{"test", "/spec/range", p.RangeText},
						operation{"replace", "/spec/range", r.Masked().String()})
					return
				}
			}
		}
	}
	names["badpool"] = p.Ref()
}

// malformedItem returns the item of a finding Malformed, nil for one on a pool.
func (a *answer) malformedItem(f findings.Finding) *judge.Item {
	items := a.Items()
	i := slices.IndexFunc(items, func(it *judge.Item) bool {
		return it.Reason == judge.Malformed && strings.Contains(f.Message, it.Object()) && (it.Allocation == nil ||
			f.Pool == it.Object() && f.IP == it.Text() && strings.Contains(f.Message, it.Key()))
	})
	if i < 0 {
		return nil
	}
	return items[i]
}
