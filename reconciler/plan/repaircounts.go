package plan

import (
	"maps"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// RepairCounts are the allocations that were written within the last hour and that no pod in the API requests.
type RepairCounts map[NodePool]Window

// With returns the counts with one more repair at a time.
func (c RepairCounts) With(now time.Time, w *findings.Repair) RepairCounts {
	next, at := maps.Clone(c), nodePoolOf(w)
	if next == nil {
		next = RepairCounts{}
	}
	next[at] = next[at].LastHour(now).Add(now, 1, 0)
	return next
}

// LastHour returns the counts that limit repairs at a time.
func (c RepairCounts) LastHour(now time.Time) RepairCounts {
	next := RepairCounts{}
	for at, w := range c {
		if w = w.LastHour(now); len(w) > 0 {
			next[at] = w
		}
	}
	return next
}

func (c RepairCounts) recent(now time.Time) map[NodePool]int {
	count := map[NodePool]int{}
	for at, w := range c {
		count[at] = w.LastHour(now).total()
	}
	return count
}

func nodePoolOf(w *findings.Repair) NodePool {
	return NodePool{Node: w.Node, Pool: w.Pool.Ref()}
}
