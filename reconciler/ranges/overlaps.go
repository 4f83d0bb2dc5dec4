package ranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// Overlap is a range of today's definitions that shares addresses with one of the proposal and has another pool. One of
// the two does not use overlapping ranges: its ADDs do not look at what those of the other have assigned.
type Overlap struct {
	Range       *Range
	Definitions []string
	Pool        string // the name of the other pool, or the range that is cut into slices
	Shared      *netipx.IPSet
	Why         string
}

// overlaps finds the definitions that a proposal does not replace, of the same networks, and whose ADDs and those of
// the proposal would assign the same addresses.
func overlaps(j *findings.Assessment, p *Proposal, ranges []*Range) (found []Overlap) {
	at := map[string]int{}
	for name, nad := range j.Observation.NADs.Or(nil) {
		if nad == nil || nad.Problem != "" || slices.Contains(p.Definitions, name.String()) {
			continue
		}
		for _, n := range nad.Networks {
			for _, o := range overlapsOf(j.Facts().Namespace(), n, ranges) {
				key := fmt.Sprint(o.Range.Prefix, o.Range.Network.Name, o.Pool, o.Why)
				i, isKnown := at[key]
				if !isKnown {
					i, at[key] = len(found), len(found)
					found = append(found, o)
				}
				found[i].Definitions = append(found[i].Definitions, name.String())
			}
		}
	}
	for i := range found {
		found[i].Definitions = facts.SortedUnique(found[i].Definitions)
	}
	slices.SortFunc(found, func(a, b Overlap) int {
		return cmp.Or(a.Range.Prefix.Compare(b.Range.Prefix), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Why, b.Why))
	})
	return found
}

// overlapsOf are the overlaps of the ranges of a proposal with those of a network of another definition.
func overlapsOf(namespace string, n ippool.Network, ranges []*Range) (found []Overlap) {
	if n.Refused != "" {
		return nil
	}
	for i, prefix := range n.Ranges {
		if n.Slices && i > 0 {
			break
		}
		pool, usable := assigned(namespace, n, prefix)
		for _, r := range ranges {
			isSame := r.Network.Name != n.Name || r.Prefix == prefix && r.Network.Slices == n.Slices
			why := whyUnseen(r.Network.Overlapping, n.Overlapping)
			if isSame || why == "" {
				continue
			}
			if shared := without(usable, without(usable, r.Usable)); len(shared.Ranges()) > 0 {
				found = append(found, Overlap{Range: r, Pool: pool, Shared: shared, Why: why})
			}
		}
	}
	return found
}

// assigned is from where ADDs by a definition assign the addresses of one of its ranges, and which ones they assign.
func assigned(namespace string, n ippool.Network, prefix netip.Prefix) (pool string, usable *netipx.IPSet) {
	if n.Slices {
		return "slices of " + prefix.String(), after(prefix, prefix.Addr())
	}
	return ippool.PoolName(n.Name, prefix), n.Usable(ippool.NewPool(namespace, n.Name, prefix))
}

// whyUnseen says which ADDs do not look at what the others have assigned, "" if all do.
func whyUnseen(isOverlapping, isOtherOverlapping bool) string {
	switch {
	case isOverlapping && isOtherOverlapping:
		return ""
	case isOverlapping:
		return "the other definition does not use enable_overlapping_ranges, so its ADDs assign what this one has " +
			"assigned, and reserve nothing"
	case isOtherOverlapping:
		return "this definition does not use enable_overlapping_ranges, so its ADDs assign what the other one has " +
			"assigned, and reserve nothing"
	}
	return "neither uses enable_overlapping_ranges, so ADDs of each assign what the other one has assigned: whereabouts " +
		"takes them for isolated networks"
}
