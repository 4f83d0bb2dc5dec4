package usage

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Owner is who has entries in a pool.
type Owner struct {
	Name    string
	Entries int
}

// mostOwners is how many owners of a kind are told.
const mostOwners = 10

// ByNamespace are the namespaces with the most entries, the first of them first.
func (p *Pool) ByNamespace() []Owner {
	counts := map[string]int{}
	for i := range p.Allocations {
		counts[p.Allocations[i].Owner.Namespace]++
	}
	delete(counts, "") // of entries that cannot be read
	return most(counts)
}

// ByWorkload are the controllers with the most entries, as "<namespace>/<kind>/<name>", the first of
// them first. A pod without a controller counts as itself, and so does one that does not exist any
// more: nothing is concluded from its name.
func (u *Pools) ByWorkload(p *Pool) []Owner {
	counts := map[string]int{}
	for i := range p.Allocations {
		o := p.Allocations[i].Owner
		if o.Name == "" {
			continue
		}
		name := "Pod/" + o.Name
		if pod := u.o.Pods[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]; pod != nil && o.UID == "" && pod.Workload != "" {
			name = pod.Workload
		}
		counts[o.Namespace+"/"+name]++
	}
	return most(counts)
}

func most(counts map[string]int) []Owner {
	owners := make([]Owner, 0, len(counts))
	for name := range maps.Keys(counts) {
		owners = append(owners, Owner{name, counts[name]})
	}
	slices.SortFunc(owners, func(a, b Owner) int { return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Name, b.Name)) })
	return owners[:min(mostOwners, len(owners))]
}
