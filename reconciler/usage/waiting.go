package usage

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// WaitsAfter is how old a pod is at least that waits for an address: before that its sandbox may be
// being set up.
const WaitsAfter = 30 * time.Second

// assigner is a definition of a pool.
type assigner struct {
	pool       *Pool
	definition *Definition
}

// addWaiting finds the pods that wait for an address of each pool: Pending, bound to a node, WaitsAfter
// old, asking for a definition by which nothing is left, with fewer entries there than interfaces. Where a
// definition has several ranges one that is full is enough: the ADD fails with it. A pod of
// which another pool by the same definition and range has something left does not wait.
func (u *Pools) addWaiting() {
	by := map[types.NamespacedName][]assigner{}
	for _, p := range u.All {
		for _, d := range p.Definitions {
			by[d.NamespacedName] = append(by[d.NamespacedName], assigner{p, d})
		}
	}
	for _, pod := range u.o.Pods {
		if pod.Phase != podstate.Pending || pod.Node == "" || pod.Disputed != "" || u.o.Now.Sub(pod.Created) < WaitsAfter {
			continue
		}
		interfaces := map[types.NamespacedName]int{}
		for _, name := range pod.Selected {
			interfaces[name]++
		}
		for name, n := range interfaces {
			lacks := func(a assigner) bool { return !a.definition.next.IsValid() && a.pool.entriesOf(pod.NamespacedName) < n }
			for _, p := range waitedFor(by[name], pod, lacks) {
				if n := len(p.Waiting); n == 0 || p.Waiting[n-1] != pod.NamespacedName { // once for all its definitions
					p.Waiting = append(p.Waiting, pod.NamespacedName)
				}
			}
		}
	}
	for _, p := range u.All {
		slices.SortFunc(p.Waiting, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	}
}

// waitedFor are the pools of one definition for whose addresses a pod waits. lacks reports whether a pool has
// neither an entry for each of its interfaces nor a free address.
func waitedFor(all []assigner, pod *podstate.Pod, lacks func(assigner) bool) []*Pool {
	left := map[netip.Prefix]bool{}
	var found []*Pool
	for _, a := range all {
		switch {
		case a.definition.Node != "" && a.definition.Node != pod.Node:
		case !lacks(a):
			left[a.pool.Range.Prefix()] = true
		default:
			found = append(found, a.pool)
		}
	}
	return slices.DeleteFunc(found, func(p *Pool) bool { return left[p.Range.Prefix()] })
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
