package findings

import "fmt"

// slicesWithoutNode are the findings on node slices whose Nodes are gone for good. whereabouts keeps their pools, and
// assigns none of their addresses. A slice whose Node is missing for a moment, or whose name may be that of another one
// is not found.
func (x *finder) slicesWithoutNode() (found []Finding) {
	var bound map[string]bool
	for _, p := range x.Pools() {
		if len(p.Slice) == 0 || x.HasNode(p.Slice) {
			continue
		}
		if bound == nil {
			bound = x.BoundNodes()
		}
		lost := x.LostNodesOf(p, bound)
		if len(lost) == 0 {
			continue
		}
		has := "it has no allocations"
		if n := len(p.Allocations); n > 0 {
			has = fmt.Sprintf("it has allocations: %d", n)
		}
		found = append(found, Finding{Kind: SliceWithoutNode, Pool: p.Ref(), Node: lost[0],
			Message: fmt.Sprintf("pool %s is the slice of %s, whose Node is gone; %s. No ADD assigns from it any more",
				p.Ref(), andOthers(lost), has)})
	}
	return found
}
