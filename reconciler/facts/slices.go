package facts

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// BoundNodes are the nodes to which pods are bound, finished ones included.
func (f *Facts) BoundNodes() map[string]bool {
	nodes := map[string]bool{}
	for _, pods := range []map[types.NamespacedName]*podstate.Pod{f.o.Pods, f.live.pods} {
		for _, p := range pods {
			if p != nil {
				nodes[p.Node] = true
			}
		}
	}
	delete(nodes, "")
	return nodes
}

// LostNodesOf are the nodes whose slice a pool is by definitions, if all of them are gone for good. It is empty if the
// pool may be anything else: by its name the slice of a node that exists, or all of a range. bound are the BoundNodes.
func (f *Facts) LostNodesOf(p *Pool, bound map[string]bool) []string {
	isThere := func(node string) bool { return !f.IsGoneForGood(node, bound) }
	if p.MayBeOfAny || len(p.Slice) == 0 || slices.ContainsFunc(p.Slice, isThere) ||
		slices.ContainsFunc(p.SliceNodes(f.namedNodes), isThere) {
		return nil
	}
	return p.Slice
}

// IsGoneForGood reports whether nothing names a node any more. It has no Node object, and not only for a moment. No pod
// is bound to it: Kubernetes deletes the pods of a missing node, and not before 40 s have passed (v1.36,
// pkg/controller/podgc/gc_controller.go, quarantineTime). It has no report that may still be true. bound are the
// BoundNodes. If nodes or reports are unknown, or there is no node at all, none is gone.
func (f *Facts) IsGoneForGood(node string, bound map[string]bool) bool {
	if _, isExpected := f.missingNodes[node]; isExpected || bound[node] {
		return false
	}
	r := f.byNode[node]
	return len(f.nodes) > 0 && f.IsMissing(node) && f.knowsWhoReports() && (r == nil || f.IsObsolete(r))
}

// HasNode reports whether any of the nodes has a Node object.
func (f *Facts) HasNode(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return f.nodes[name] != nil })
}
