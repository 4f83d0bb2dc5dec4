package reconciler

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// goneFor is how long a Node object must have been missing before its node is not waited for: nodes are deleted
	// and join again under the same name.
	goneFor = time.Hour
	// clocksDiffer is by how much the clocks of two API servers may differ.
	clocksDiffer = 10 * time.Second
)

// restoreGate says why nothing may be released because of a restore; "" where it may.
func (h *History) restoreGate(j *judge.Judgement) string {
	if o := j.Observation; o.Restored != "" {
		return restoreSeen(o.Restored)
	}
	if h.storedRestore.unread != nil {
		return restoresUnread(h.storedRestore.unread)
	}
	return h.restoreState(j).Text()
}

// restoreState is what a pass knows of the last restore; nil where there was none.
func (h *History) restoreState(j *judge.Judgement) *judge.RestoreState {
	r, o := &h.restore, j.Observation
	if r.At.IsZero() || j.WithoutAgents {
		return nil
	}
	state := &judge.RestoreState{Restored: r.At, Why: r.Why, Awaiting: []string{}}
	if r.Settled || r.acknowledged(o) {
		return state
	}
	reports := reportsByName(o)
	for _, name := range slices.Sorted(maps.Keys(r.nodesAsked(j))) {
		report, node := reports[name], o.Nodes[name]
		if !r.awaits(name, report, o) {
			continue
		}
		state.Awaiting = append(state.Awaiting, name)
		if r.Awaited[name] && node == nil && (report == nil || len(o.Nodes) > 0) {
			state.LostNodes = append(state.LostNodes, name)
		}
		if node != nil && node.IsDead() {
			state.TaintedNodes = append(state.TaintedNodes, name)
		}
	}
	return state
}

// nodesAsked are the nodes that must report: those that should have an agent or have a report, and those that a pass
// knew before.
func (r *restore) nodesAsked(j *judge.Judgement) sets.Set[string] {
	return sets.KeySet(j.Nodes).Union(sets.KeySet(r.Awaited)).Union(sets.KeySet(r.Gone))
}

// awaits reports whether a node has yet to report. A node that is proven dead, or whose Node object somebody deleted
// an hour ago and since the restore, has nothing to report. A Node object that the restore itself has lost proves
// nothing: what ran there runs on.
func (r *restore) awaits(name string, report *podstate.Report, o *judge.Observation) bool {
	node := o.Nodes[name]
	switch {
	case report != nil && r.isSince(report):
		return false
	case node != nil:
		return !node.IsDead() || r.doubtsTaint(node)
	}
	since, gone := r.Gone[name]
	return !gone || o.Now.Sub(since) < goneFor
}

// isSince reports whether a report says what runs since the restore: it was written or confirmed since. Whatever was
// written between backup and restore is lost, so that a report which is younger than the backup is since the restore.
// At is such a time, by whoever dated it. A Lease that confirms a report is renewed all the time, in the backup as
// well: it must be younger than Noticed, by more than the clocks of two API servers may differ.
// A report of the backup that caches still have from before the restore may be younger, too: what they hold opens the
// gate for a first check only, and settles nothing.
func (r *restore) isSince(report *podstate.Report) bool {
	return !report.WrittenAt.Before(r.At) || !report.ConfirmedAt.Before(r.Noticed.Add(clocksDiffer))
}

// noteAwaited notes which nodes a restore still waits for, and settles it when there are none. Only a quorum read does.
func (h *History) noteAwaited(j *judge.Judgement) {
	r, o := &h.restore, j.Observation
	r.acknowledgeDoubts(j)
	if r.At.IsZero() || r.Settled || j.WithoutAgents || o.Restored != "" || o.ReportsUnreadable || o.Watched {
		return
	}
	reports, asked := reportsByName(o), r.nodesAsked(j)
	known := sets.KeySet(r.Awaited).Union(sets.KeySet(r.Gone))
	for name := range asked {
		report, node := reports[name], o.Nodes[name]
		switch {
		case node != nil || report != nil && r.isSince(report):
			if r.Awaited[name] {
				r.Awaited[name] = false
			}
			delete(r.Gone, name)
		case !r.Awaited[name] && len(o.Nodes) > 0 && r.Gone[name].IsZero():
			if r.Gone == nil {
				r.Gone = map[string]time.Time{}
			}
			r.Gone[name] = o.Now
		}
	}
	state, awaited := h.restoreState(j), map[string]bool{}
	for _, name := range state.Awaiting {
		// A node that joined since and goes before it reports is forgotten. While etcd was away none was created.
		node := o.Nodes[name]
		hasJoined := !known.Has(name) && node != nil && reports[name] == nil && (r.Asked || !node.CreatedAt.Before(r.At))
		if !hasJoined {
			awaited[name] = r.Awaited[name]
		}
	}
	if r.Asked, r.Awaited = true, awaited; state.Complete() {
		r.Settled, r.Gone = true, nil
	}
}

// due is when the next node that is gone is not waited for any more; zero for never.
func (r *restore) due(now time.Time) (next time.Time) {
	for _, since := range r.Gone {
		if at := since.Add(goneFor); at.After(now) {
			next = EarliestNonZero(next, at)
		}
	}
	return next
}

// acknowledged reports whether an operator says that no node has to be waited for because of this restore, and not
// of restores that are yet to come.
func (r *restore) acknowledged(o *judge.Observation) bool {
	return !o.Acknowledged.Before(r.At.Truncate(time.Second)) && !o.Acknowledged.After(o.Now)
}

func reportsByName(o *judge.Observation) map[string]*podstate.Report {
	reports := make(map[string]*podstate.Report, len(o.Reports))
	for _, r := range o.Reports {
		reports[r.Name] = r
	}
	return reports
}
