package ranges

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// checkSlices returns why whereabouts' node controller cannot cut the first range of a network into slices, or why no
// ADD assigns an address from them. It is nil for a network without slices (whereabouts v0.9.4,
// pkg/iphelpers/iphelpers.go, DivideRangeBySize, which calculates with 32 bits, and FirstUsableIP).
func checkSlices(n ippool.Network) error {
	if !n.Slices {
		return nil
	}
	why, whole := "", n.Ranges[0]
	switch {
	case whole.Addr().Is6():
		why = fmt.Sprintf("whereabouts cuts only IPv4 ranges into node slices, and its node controller panics at %s", whole)
	case n.SliceBits == 0:
		why = "it must be the prefix length of a slice, for example /28"
	case n.SliceBits < whole.Bits():
		why = fmt.Sprintf("a slice must not be larger than the range %s", whole)
	case n.SliceBits > 30:
		why = "no address of such a slice can be assigned; /30 is the smallest one"
	default:
		return nil
	}
	return fmt.Errorf("node_slice_size %q: %s", n.SliceSize, why)
}

// findUncut finds why nodes get no slice of a range, of the proposal or of other definitions. The node controller
// refuses a definition while any other one has the same network_name and another first range or node_slice_size. This
// also holds for definitions without slices, and for those without a network_name (whereabouts v0.9.4,
// pkg/node-controller/controller.go, checkForMultiNadMismatch). NodeSlicePools are not read, so it is unknown whether
// the range has slices from before.
func (c *Check) findUncut(j *findings.Assessment) {
	for _, n := range c.Networks {
		var mismatched, stopped []string
		for name, nad := range j.Observation.NADs.Or(nil) {
			if nad == nil || slices.Contains(c.Definitions, name.String()) {
				continue
			}
			for _, other := range nad.Networks {
				if isCutAlike(n, other) {
					continue
				}
				mismatched = append(mismatched, name.String())
				if other.Slices && !c.isStoppedToday(j, other) {
					stopped = append(stopped, name.String())
				}
			}
		}
		if n.Slices && len(mismatched) > 0 {
			c.Uncut = append(c.Uncut, fmt.Sprintf("whereabouts does not cut %s into slices of /%d while these definitions have "+
				"%s and another first range or node_slice_size: %s. Without a NodeSlicePool every ADD fails, and an existing one "+
				"keeps the slices of before", n.Ranges[0], n.SliceBits, sameName(n),
				facts.AtMost(facts.SortedUnique(mismatched), 5)))
		}
		if len(stopped) > 0 {
			c.Uncut = append(c.Uncut, fmt.Sprintf("whereabouts gives new nodes no slice of these definitions while the new one "+
				"has %s and another first range or node_slice_size: %s. ADDs fail on those nodes", sameName(n),
				facts.AtMost(facts.SortedUnique(stopped), 5)))
		}
		c.countSlices(j, n)
	}
}

// sameName is what two networks of one name have, after "have" or "has".
func sameName(n ippool.Network) string {
	if n.Name == "" {
		return "no network_name either,"
	}
	return "the same network_name"
}

// isCutAlike reports whether the node controller accepts two networks together.
func isCutAlike(a, b ippool.Network) bool {
	return a.Name != b.Name || a.Ranges[0] == b.Ranges[0] && a.SliceSize == b.SliceSize
}

// isStoppedToday reports whether a definition that the proposal replaces keeps the node controller from a network
// already.
func (c *Check) isStoppedToday(j *findings.Assessment, other ippool.Network) bool {
	return slices.ContainsFunc(c.Definitions, func(name string) bool {
		nad := j.Facts().NAD(name)
		return nad != nil && slices.ContainsFunc(nad.Networks, func(today ippool.Network) bool {
			return !isCutAlike(today, other)
		})
	})
}

// countSlices finds whether a range has fewer slices than there are nodes. Each node takes one, and the others get none
// (whereabouts v0.9.4, pkg/node-controller/controller.go, assignNodeToSlice).
func (c *Check) countSlices(j *findings.Assessment, n ippool.Network) {
	if !n.Slices {
		return
	}
	cut := new(big.Int).Lsh(big.NewInt(1), uint(n.SliceBits-n.Ranges[0].Bits()))
	nodes := len(j.Observation.Nodes.Or(nil))
	if cut.Cmp(big.NewInt(int64(nodes))) < 0 {
		c.Uncut = append(c.Uncut, fmt.Sprintf("%s cut into slices of /%d is enough for %s of %d nodes: ADDs fail on the "+
			"other ones, and which ones these are is unknown", n.Ranges[0], n.SliceBits, cut, nodes))
	}
}
