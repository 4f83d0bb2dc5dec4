package ranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// unknown returns a sentence for each thing because of which a cluster may have more than is seen.
func (x *side) unknown() (found []string) {
	found = unknown(x.Assessment)
	if x.WithoutAgents {
		found = append(found, "there are no SandboxReports, so what sandboxes without a pod carry cannot be seen: add "+
			"them and their Leases to the snapshot, if node agents run")
	}
	found = append(found, x.unexported()...)
	var onNodes, unread []string
	for name, nad := range x.Observation.NADs.Or(nil) {
		if nad != nil && nad.IsOnNodes() {
			onNodes = append(onNodes, name.String())
		}
	}
	for _, u := range x.Facts().UnreadPods() {
		unread = append(unread, u.Pod.String()+" ("+u.Why+")")
	}
	add := func(text string, names []string) {
		if len(names) > 0 {
			found = append(found, text+facts.AtMost(facts.SortedUnique(names), 5))
		}
	}
	add("these NetworkAttachmentDefinitions are configured on the nodes, so their ranges are unknown: ", onNodes)
	add("the addresses of these pods are unknown: ", unread)
	for i := range found {
		found[i] = x.Label + ": " + strings.TrimSuffix(found[i], ".")
	}
	return found
}

// unexported returns a sentence for each thing that a snapshot may lack although none of its lists says so.
func (x *side) unexported() (found []string) {
	o := x.Observation
	switch lacking := o.LackingPods; {
	case x.PodsComplete:
	case len(o.Pods) == 0:
		found = append(found, "there are no pods, so what they carry cannot be seen: export them, or use --pods-complete if "+
			"the cluster has none")
	case len(lacking) > 0:
		found = append(found, "these namespaces have allocations and no pods, so what their pods carry cannot be seen: "+
			"export them, or use --pods-complete if they have none: "+facts.AtMost(lacking, 5))
	}
	if o.Cut != "" {
		found = append(found, fmt.Sprintf("sysdump wrote %s, but the archive's manifest.json is missing, so other files may "+
			"be missing, too", o.Cut))
	}
	if err := o.Guests.Err(); err != nil && !o.NeedsGuests() && o.HasMachines() { // else it is said already
		found = append(found, fmt.Sprintf("%s cannot be read (%s)", facts.SourceGuests, err))
	}
	return found
}
