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

// Overlap is a range that shares addresses with one of the proposal and has another pool: of today's definitions, or of
// the proposal, too. ADDs in one of them do not look at what those in the other have assigned, or not at what the same
// pod has.
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
	at, beside := map[string]int{}, besideOf(j, p)
	for name, nad := range j.Observation.NADs.Or(nil) {
		if nad == nil || nad.Problem != "" || slices.Contains(p.Definitions, name.String()) {
			continue
		}
		for _, n := range nad.Networks {
			for _, o := range overlapsOf(j.Facts().Namespace(), n, ranges, beside[name.String()]) {
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

// ownOverlaps finds the ranges of the proposal that share addresses. An ADD skips what other pods have reserved, and
// not what its own pod has (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
func (c *Check) ownOverlaps() (found []Overlap) {
	for i, a := range c.Ranges {
		for _, b := range c.Ranges[:i] {
			if a.Network.Name != b.Network.Name || a.Prefix == b.Prefix {
				continue
			}
			shared := without(a.Usable, without(a.Usable, b.Usable))
			why := whyUnseen(b.Network.Overlapping, a.Network.Overlapping)
			if why == "" {
				why = "both are ranges of the new definition, and a pod may get the same address from each: its own " +
					"reservation does not keep it from the other one"
			}
			if len(shared.Ranges()) > 0 {
				found = append(found, Overlap{Range: a, Definitions: c.Definitions, Pool: cmp.Or(b.Pool, b.Prefix.String()),
					Shared: shared, Why: why})
			}
		}
	}
	return found
}

// besideOf are the definitions whose networks a pod has together with one that the proposal replaces.
func besideOf(j *findings.Assessment, p *Proposal) map[string]bool {
	found := map[string]bool{}
	for _, pod := range j.Observation.Pods {
		names := pod.Networks()
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p.Definitions, name) }) {
			continue
		}
		for _, name := range names {
			found[name] = true
		}
	}
	return found
}

// overlapsOf are the overlaps of the ranges of a proposal with those of a network of another definition. isBeside says
// that a pod has both networks.
func overlapsOf(namespace string, n ippool.Network, ranges []*Range, isBeside bool) (found []Overlap) {
	if n.Refused != "" {
		return nil
	}
	for i, prefix := range n.Ranges {
		if n.Slices && i > 0 {
			break
		}
		pool, usable := assigned(namespace, n, prefix)
		for _, r := range ranges {
			isSame := r.Network.Name != n.Name || r.Prefix == prefix && r.Network.Slices == n.Slices &&
				r.Network.SlicePool == n.SlicePool
			why := whyUnseen(r.Network.Overlapping, n.Overlapping)
			if why == "" && isBeside {
				why = "a pod that has both networks may get the same address on each: its own reservation does not keep it " +
					"from its other ADD"
			}
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
