package ranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// SharedRange are addresses that definitions of both clusters assign. Relation says whether their networks are one, and
// Why says why that is unknown.
type SharedRange struct {
	Assigned [2]*Assigned
	Shared   *netipx.IPSet
	Relation Relation
	Why      string
	Network  string // names the networks for a person
}

// Assigned is what definitions of a cluster assign that are alike.
type Assigned struct {
	Network     *Network
	Definitions []string
	Pool        string // the name of the pool, or the range that is cut into slices

	prefix netip.Prefix
	usable *netipx.IPSet
}

// mostShared is how many shared ranges are listed, and mostPairs how many are compared: tenants write definitions.
const mostShared, mostPairs = 1000, 100_000

// addRanges finds the ranges that definitions of both clusters assign.
func (c *Comparison) addRanges() {
	first, second := c.sides[0].assigned(), c.sides[1].assigned()
	left := mostPairs
	first.around(second, &left, c.addRange)
	second.around(first, &left, func(b, a *Assigned) {
		if a.prefix != b.prefix {
			c.addRange(a, b)
		}
	})
	slices.SortStableFunc(c.Ranges, func(x, y SharedRange) int {
		a, b := x.Assigned, y.Assigned
		return cmp.Or(cmp.Compare(y.Relation, x.Relation), a[0].prefix.Compare(b[0].prefix),
			a[1].prefix.Compare(b[1].prefix), slices.Compare(a[0].Definitions, b[0].Definitions),
			slices.Compare(a[1].Definitions, b[1].Definitions))
	})
	more := max(0, len(c.Ranges)-mostShared)
	c.Ranges = c.Ranges[:len(c.Ranges)-more]
	if left < 0 || more > 0 {
		c.Unknown = append(c.Unknown, fmt.Sprintf("the definitions have more ranges in common than the %d that are listed",
			len(c.Ranges)))
	}
}

// addRange adds what two ranges have in common.
func (c *Comparison) addRange(a, b *Assigned) {
	if shared := without(a.usable, without(a.usable, b.usable)); len(shared.Ranges()) > 0 {
		r, why := relate(a.Network, b.Network)
		network := networkText(c.labels(), []Holder{{Cluster: a.Network.Cluster, Networks: []*Network{a.Network}},
			{Cluster: b.Network.Cluster, Networks: []*Network{b.Network}}})
		c.Ranges = append(c.Ranges, SharedRange{[2]*Assigned{a, b}, shared, r, why, network})
	}
}

// assignments are what the definitions of a cluster assign, by their ranges.
type assignments struct {
	all      []*Assigned
	byPrefix map[netip.Prefix][]*Assigned
	lengths  []int // of the prefixes
}

// assigned are what the definitions of a cluster assign, each once. A definition that whereabouts refuses assigns
// nothing.
func (x *side) assigned() *assignments {
	all := &assignments{byPrefix: map[netip.Prefix][]*Assigned{}}
	type key struct {
		network *Network
		text    string
	}
	known := map[key]*Assigned{}
	for _, s := range x.sections {
		if s.Refused != "" {
			continue
		}
		for i, prefix := range s.Ranges {
			if s.Slices && i > 0 || slices.Index(s.Ranges, prefix) != i { // of equal ranges only the first counts
				continue
			}
			at := key{s.of, fmt.Sprint(prefix, s.Slices, s.Bounds[i])}
			if known[at] == nil {
				pool, usable := assigned(x.Facts().Namespace(), s.Network, prefix)
				known[at] = &Assigned{Network: s.of, Pool: pool, prefix: prefix, usable: usable}
				all.all, all.byPrefix[prefix] = append(all.all, known[at]), append(all.byPrefix[prefix], known[at])
				all.lengths = append(all.lengths, prefix.Bits())
			}
			known[at].Definitions = append(known[at].Definitions, s.definition)
		}
	}
	all.lengths = facts.SortedUnique(all.lengths)
	return all
}

// around calls a function for each range with each one of another cluster that contains it, as often as is left. Then
// left is negative.
func (m *assignments) around(other *assignments, left *int, call func(inner, outer *Assigned)) {
	for _, inner := range m.all {
		for _, bits := range other.lengths {
			at, err := inner.prefix.Addr().Prefix(bits)
			if err != nil || bits > inner.prefix.Bits() {
				continue
			}
			for _, outer := range other.byPrefix[at] {
				if *left--; *left < 0 {
					return
				}
				call(inner, outer)
			}
		}
	}
}
