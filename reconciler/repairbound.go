package reconciler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// noteRepair counts an entry that was written.
func (h *History) noteRepair(now time.Time, w *judge.Repair) {
	if h.repaired == nil {
		h.repaired = map[judge.NodePool]window{}
	}
	at := judge.NodePool{Node: w.Node, Pool: w.Pool.Ref()}
	h.repaired[at] = h.repaired[at].since(now).and(now, 1, 0)
}

// repairedWithin is how many entries were written within the last hour.
func (h *History) repairedWithin(now time.Time) map[judge.NodePool]int {
	count := map[judge.NodePool]int{}
	for at, w := range h.repaired {
		for _, r := range w.since(now) {
			count[at] += r.Count
		}
	}
	return count
}

// forgetRepairs forgets the entries that were written more than an hour ago.
func (h *History) forgetRepairs(now time.Time) {
	maps.DeleteFunc(h.repaired, func(_ judge.NodePool, w window) bool { return len(w.since(now)) == 0 })
}

// boundRepairs withholds what would be too much by the report of one node. Those of pods
// that the API has come first.
func (h *History) boundRepairs(j *judge.Judgement, due []*repairAttempt) (allowed, withheld []*repairAttempt, why []Unrepaired) {
	if len(due) == 0 {
		return nil, nil, nil
	}
	pools := make([]string, len(due))
	for i, f := range due {
		pools[i] = f.Repair.Pool.Ref()
	}
	x, inPool := j.Index(), h.repairedWithin(j.Observation.Now)
	for at, n := range x.PhantomsRecorded(pools) { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode := map[string]int{}
	for at, n := range inPool {
		byNode[at.Node] += n
	}
	type entryOf struct{ containerID, pool string }
	recorded, read := map[entryOf]bool{}, map[string]bool{}
	due = slices.Clone(due)
	slices.SortStableFunc(due, func(a, b *repairAttempt) int { return cmp.Compare(rank(a.Repair), rank(b.Repair)) })
	for _, f := range due {
		at, text := judge.NodePool{Node: f.Repair.Node, Pool: f.Repair.Pool.Ref()}, ""
		if f.Repair.Key != "" {
			if !read[at.Pool] {
				read[at.Pool] = true
				for i := range f.Repair.Pool.Allocations {
					recorded[entryOf{f.Repair.Pool.Allocations[i].ContainerID, at.Pool}] = true
				}
			}
			unconfirmed := inPool[at] + 1
			if first := (entryOf{f.Repair.ContainerID, at.Pool}); !f.Repair.Phantom && !recorded[first] {
				unconfirmed, recorded[first] = 0, true // whereabouts gives an interface one address of a range
			}
			text = x.RepairLimit(at, byNode[at.Node]+1, unconfirmed)
		}
		if text != "" {
			withheld, why = append(withheld, f), append(why, Unrepaired{*f.Finding, Breaker, text})
			continue
		}
		if f.Repair.Key != "" {
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, f)
	}
	return allowed, withheld, why
}

func rank(w *judge.Repair) int {
	if w.Phantom {
		return 1
	}
	return 0
}
