package findings

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// MayBeOn reports whether a pod or a sandbox of the finding is, or may be, on a node that is picked. A Conflict or an
// Unrecorded address without known nodes may be on any.
func (f *Finding) MayBeOn(isPicked func(node string) bool) bool {
	switch {
	case f.Node != "":
		return isPicked(f.Node)
	case len(f.nodes) == 0:
		return f.Kind == Conflict || f.Kind == Unrecorded
	}
	return slices.ContainsFunc(f.nodes, func(node string) bool { return node == "" || isPicked(node) })
}

// nodesOf are the nodes of pods, with "" for one whose node is unknown.
func (x *finder) nodesOf(refs []string) (nodes []string) {
	for _, pod := range x.PodsByRef(refs) {
		if pod == nil {
			nodes = append(nodes, "")
			continue
		}
		nodes = append(nodes, pod.Node)
	}
	return facts.SortedUnique(nodes)
}
