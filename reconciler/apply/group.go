package apply

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const maxLeases = 16 // that are held at once

// group is the changes that are written under the same Leases.
type group[C Change] struct {
	namespace string
	leases    []string // the shared one first: nothing is possible without it
	changes   []C
}

// groupChanges puts together what can be written under one hold. The pools of node slices have a Lease each. Several
// are held at once, since all of them need the shared Lease, too, which this process must yield after each hold.
func groupChanges[C Change](changes []C) []*group[C] {
	var all []*group[C]
	for _, c := range changes {
		namespace, leases := c.Leases()
		at := slices.IndexFunc(all, func(g *group[C]) bool {
			with := union(g.leases, leases)
			return g.namespace == namespace && (len(with) == len(g.leases) || len(with) <= maxLeases)
		})
		if at < 0 {
			at = len(all)
			all = append(all, &group[C]{namespace: namespace, leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		g.leases, g.changes = union(g.leases, leases), append(g.changes, c)
	}
	return all
}

// union appends to names those of more that they lack.
func union(names, more []string) []string {
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(slices.Clip(names), n)
		}
	}
	return names
}
