package usage

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// WaitsAfter is how old a pod is at least that waits for an address: before that its sandbox may be being set up.
const WaitsAfter = 30 * time.Second

// addWaiting finds the pods that wait for an address of each pool: Pending, bound to a node, WaitsAfter
// old, asking for a definition by which nothing is left, with fewer entries there than interfaces. Where a
// definition has several ranges one that is full is enough: the ADD fails with it. A pod of
// which another pool by the same definition and range has something left does not wait.
func (u *Pools) addWaiting() {
	by := map[types.NamespacedName][]*Definition{}
	for _, p := range u.All {
		for _, d := range p.Definitions {
			by[d.NamespacedName] = append(by[d.NamespacedName], d)
		}
	}
	for _, pod := range u.o.Pods {
		if pod.Phase != podstate.Pending || pod.Node == "" || pod.Contradiction != "" || u.o.Now.Sub(pod.CreatedAt) < WaitsAfter {
			continue
		}
		interfaces := map[types.NamespacedName]int{}
		for _, name := range pod.RequestedNetworks {
			interfaces[name]++
		}
		waitsFor := map[*Pool]bool{} // once for all its definitions
		for name, n := range interfaces {
			left := map[netip.Prefix]bool{}
			ofNode := slices.DeleteFunc(slices.Clone(by[name]), func(d *Definition) bool { return d.Node != "" && d.Node != pod.Node })
			for _, d := range ofNode {
				prefix := d.pool.Range.Prefix()
				left[prefix] = left[prefix] || d.next.IsValid() || d.pool.entriesOf(pod.NamespacedName) >= n
			}
			for _, d := range ofNode {
				if !left[d.pool.Range.Prefix()] {
					waitsFor[d.pool] = true
				}
			}
		}
		for p := range waitsFor {
			p.Waiting = append(p.Waiting, pod.NamespacedName)
		}
	}
	for _, p := range u.All {
		slices.SortFunc(p.Waiting, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	}
}

// entriesOf is how many entries of a pod the pool has: an ADD takes its own by podref and ifname.
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
