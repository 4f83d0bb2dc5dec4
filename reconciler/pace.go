package reconciler

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// maxLeases is how many Leases are held at once.
const maxLeases = 16

// group is what is written under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one first: without it nothing can be done
	changes   []*change
}

// grouped puts together what can be written under one hold. The pools of node slices have a Lease each: several are
// held at once, since all of them also take the shared one, which must be left to others after each hold.
func grouped(changes []*change) []*group {
	var all []*group
	for _, c := range changes {
		at := slices.IndexFunc(all, func(g *group) bool { return g.namespace == c.namespace() && g.takes(c.leases) })
		if at < 0 {
			at = len(all)
			all = append(all, &group{namespace: c.namespace(), leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		for _, n := range c.leases {
			if !slices.Contains(g.leases, n) {
				g.leases = append(g.leases, n)
			}
		}
		g.changes = append(g.changes, c)
	}
	return all
}

// takes reports whether these Leases can be held with the group's.
func (g *group) takes(names []string) bool {
	more := 0
	for _, n := range names {
		if !slices.Contains(g.leases, n) {
			more++
		}
	}
	return more == 0 || len(g.leases)+more <= maxLeases
}
