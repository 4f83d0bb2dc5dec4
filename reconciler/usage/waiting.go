package usage

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// WaitsAfter is the minimum age of a pod that waits for an address: a younger one may be starting.
const WaitsAfter = 30 * time.Second

// addWaiting finds the pods that wait for an address of each pool. Such a pod is Pending, bound to a node and older
// than WaitsAfter. A definition that it requests has no free address for it, and it has fewer entries in the pool than
// interfaces. If a definition has several ranges, one full range is enough: the ADD fails. If another pool of the same
// definition and range has a free address, the pod does not wait.
func (u *Pools) addWaiting() {
	by := map[types.NamespacedName][]*Definition{}
	for _, p := range u.All {
		for _, d := range p.Definitions {
			by[d.NamespacedName] = append(by[d.NamespacedName], d)
		}
	}
	for _, pod := range u.o.Pods {
		isYoung := u.o.Now.Sub(pod.CreatedAt) < WaitsAfter
		if pod.Phase != podstate.Pending || pod.Node == "" || pod.Contradiction != "" || isYoung {
			continue
		}
		interfaces := map[types.NamespacedName]int{}
		for _, name := range pod.RequestedNetworks {
			interfaces[name]++
		}
		for name, n := range interfaces {
			hasRoom := map[netip.Prefix]bool{}
			ofNode := slices.DeleteFunc(slices.Clone(by[name]), func(d *Definition) bool {
				return d.Node != "" && d.Node != pod.Node
			})
			for _, d := range ofNode {
				prefix := d.pool.Range.Prefix()
				hasRoom[prefix] = hasRoom[prefix] || d.next.IsValid() || d.pool.entriesOf(pod.NamespacedName) >= n
			}
			for _, d := range ofNode {
				if !hasRoom[d.pool.Range.Prefix()] {
					d.pool.Waiting = append(d.pool.Waiting, pod.NamespacedName)
				}
			}
		}
	}
	for _, p := range u.All {
		slices.SortFunc(p.Waiting, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
		p.Waiting = slices.Compact(p.Waiting) // a pod may wait by several definitions
	}
}

// entriesOf is the number of a pod's entries in the pool.
func (p *Pool) entriesOf(pod types.NamespacedName) int {
	if p.entries == nil {
		p.entries = map[types.NamespacedName]int{}
		for i := range p.Allocations {
			if o := &p.Allocations[i].Owner; o.UID == "" {
				p.entries[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]++
			}
		}
	}
	return p.entries[pod]
}
