package reconciler

import (
	"cmp"
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
		if w = w.since(now); len(w) == 0 {
			delete(h.repaired, at)
			continue
		}
		for _, r := range w {
			count[at] += r.Count
		}
	}
	return count
}

// boundRepairs withholds what would be too much on the word of one node. Those of pods
// that the API has come first.
func (r *Reconciler) boundRepairs(j *judge.Judgement, due []*repairAttempt, out *Result) (allowed []*repairAttempt) {
	if r.Options.AllowMassRepair || len(due) == 0 {
		return due
	}
	pools := make([]string, len(due))
	for i, f := range due {
		pools[i] = f.Repair.Pool.Ref()
	}
	x, inPool := j.Index(), r.History.repairedWithin(j.Observation.Now)
	for at, n := range x.PhantomsRecorded(pools) { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode := map[string]int{}
	for at, n := range inPool {
		byNode[at.Node] += n
	}
	due = slices.Clone(due)
	slices.SortStableFunc(due, func(a, b *repairAttempt) int { return cmp.Compare(rank(a.Repair), rank(b.Repair)) })
	for _, f := range due {
		at, text := judge.NodePool{Node: f.Repair.Node, Pool: f.Repair.Pool.Ref()}, ""
		if f.Repair.Key != "" {
			text = x.RepairLimit(at, byNode[at.Node]+1, inPool[at]+1)
		}
		if text != "" {
			out.Unrepaired = append(out.Unrepaired, Unrepaired{*f.Finding, Breaker, text})
			if f.waited {
				r.History.repairs[findingKey(f.Finding)] = f.first // it need not stand for a minute again
			}
			continue
		}
		if f.Repair.Key != "" {
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, f)
	}
	return allowed
}

func rank(w *judge.Repair) int {
	if w.Phantom {
		return 1
	}
	return 0
}
