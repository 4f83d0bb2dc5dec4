package reconciler

import (
	"maps"
	"strings"
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
		count[at] = w.since(now).made()
	}
	return count
}

// forgetRepairs forgets the entries that were written more than an hour ago.
func (h *History) forgetRepairs(now time.Time) {
	maps.DeleteFunc(h.repaired, func(_ judge.NodePool, w window) bool { return len(w.since(now)) == 0 })
}

// boundRepairs withholds what would be too much for which no pod in the API asks.
func (h *History) boundRepairs(j *judge.Judgement, due []*change) (allowed, withheld []*change, why []Unrepaired) {
	if len(due) == 0 {
		return nil, nil, nil
	}
	repairs := make([]*judge.Repair, len(due))
	for i, f := range due {
		repairs[i] = f.finding.Repair
	}
	x, inPool := j.Index(), h.repairedWithin(j.Observation.Now)
	unasked, phantoms := x.Unasked(repairs)
	for at, n := range phantoms { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode, inAll, restored := map[string]int{}, 0, h.restoredLately(j)
	for at, n := range inPool {
		byNode[at.Node] += n
		inAll += n
	}
	for _, f := range due {
		if f.unasked = unasked[f.finding.Repair]; f.unasked {
			at := judge.NodePool{Node: f.finding.Repair.Node, Pool: f.finding.Repair.Pool.Ref()}
			if text := x.RepairLimit(at, restored, inAll+1, byNode[at.Node]+1, inPool[at]+1); text != "" {
				withheld, why = append(withheld, f), append(why, Unrepaired{*f.finding, Breaker, text})
				continue
			}
			inAll++
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, f)
	}
	return allowed, withheld, why
}

// restoredFor is for how long agents report a restore of etcd (agent/restore.go, restoreNoteFor).
const restoredFor = 24 * time.Hour

// restoredLately reports whether etcd was restored within a day, as this process has detected or the agents of most
// nodes report. A single agent's report raises no bound.
func (h *History) restoredLately(j *judge.Judgement) bool {
	now, r, reporters := j.Observation.Now, &h.restore, 0
	for _, report := range j.Observation.Reports {
		if now.Sub(report.RestoreSeen) <= restoredFor {
			reporters++
		}
	}
	return 2*reporters > len(j.Nodes) || now.Sub(r.seen) <= restoredFor && !strings.Contains(r.Why, byAgentOf)
}
