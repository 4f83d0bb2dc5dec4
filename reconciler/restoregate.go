package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// missingNodeTimeout is how long a Node object must be missing before its node need not report: it may join again.
	missingNodeTimeout = time.Hour
	maxClockDifference = judge.MaxClockDifference
)

// restoreGate says why a restore pauses releases; "" where it does not.
func (h *History) restoreGate(j *judge.Judgement) string {
	if o := j.Observation; o.Restored != "" {
		return "etcd was restored (" + o.Restored + "): a pass that began before releases nothing"
	}
	if err := h.storedRestore.readErr; err != nil {
		return fmt.Sprintf("cannot read the etcd restore state: %v", err)
	}
	return h.restoreState(j).Text()
}

// restoreState returns what a pass knows of the last restore; nil for none.
func (h *History) restoreState(j *judge.Judgement) *judge.RestoreState {
	r, o := &h.restore, j.Observation
	if r.At.IsZero() || j.WithoutAgents {
		return nil
	}
	state := &judge.RestoreState{Restored: r.At, Why: r.Why, Awaiting: []string{}}
	if r.IsSettled || r.isAcknowledged(o) {
		return state
	}
	reports := reportsByName(o)
	for _, name := range slices.Sorted(maps.Keys(r.nodesToReport(j))) {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		if !r.awaits(name, report, o) {
			continue
		}
		state.Awaiting = append(state.Awaiting, name)
		if r.Pending[name] && node == nil && (report == nil || o.Nodes.IsKnown()) {
			state.LostNodes = append(state.LostNodes, name)
		}
		if node != nil && node.IsDead() {
			state.TaintedNodes = append(state.TaintedNodes, name)
		}
		if report != nil && report.IsUnread() {
			state.UnreadNodes = append(state.UnreadNodes, name)
		}
	}
	return state
}

// nodesToReport are the nodes that should have an agent, those that have a report, and those that a pass has recorded.
func (r *restore) nodesToReport(j *judge.Judgement) sets.Set[string] {
	return sets.KeySet(j.Nodes).Union(sets.KeySet(r.Pending)).Union(sets.KeySet(r.MissingSince))
}

// awaits reports whether a node has yet to report. A node need not report if it is proven dead, or if its Node object
// was deleted since the restore and an hour ago. A Node object that the restore itself has lost proves nothing: its
// pods run on.
func (r *restore) awaits(name string, report *podstate.Report, o *judge.Observation) bool {
	node := o.Nodes.Or(nil)[name]
	switch {
	case report != nil && r.isAfterRestore(report):
		return false
	case node != nil:
		return !node.IsDead() || r.doubtsTaint(node)
	}
	since, isMissing := r.MissingSince[name]
	return !isMissing || o.Now.Sub(since) < missingNodeTimeout
}

// isAfterRestore reports whether a report was written or renewed since the restore.
//   - A report that was written after At is: whatever was written between backup and restore is lost.
//   - A Lease is renewed all the time, also in the backup. It must be younger than DetectedAt.
//
// Both by more than the clocks of two API servers may differ.
//
// Caches may still have a younger report from before the restore. It opens the gate for a first check only, and settles
// nothing.
func (r *restore) isAfterRestore(report *podstate.Report) bool {
	return !report.WrittenAt.Before(r.At.Add(maxClockDifference)) ||
		!report.ConfirmedAt.Before(r.DetectedAt.Add(maxClockDifference))
}

// notePendingNodes records, of a quorum read, which nodes have yet to report. The restore is settled when none has.
func (h *History) notePendingNodes(j *judge.Judgement) {
	r, o := &h.restore, j.Observation
	r.acknowledgeDoubts(j)
	if r.At.IsZero() || r.IsSettled || j.WithoutAgents || o.Restored != "" || !o.Reports.IsKnown() || o.Watched {
		return
	}
	reports, asked := reportsByName(o), r.nodesToReport(j)
	known := sets.KeySet(r.Pending).Union(sets.KeySet(r.MissingSince))
	for name := range asked {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		switch {
		case node != nil || report != nil && r.isAfterRestore(report):
			if r.Pending[name] {
				r.Pending[name] = false
			}
			delete(r.MissingSince, name)
		case !r.Pending[name] && o.Nodes.IsKnown() && r.MissingSince[name].IsZero():
			if r.MissingSince == nil {
				r.MissingSince = map[string]time.Time{}
			}
			r.MissingSince[name] = o.Now
		}
	}
	state, pending := h.restoreState(j), map[string]bool{}
	for _, name := range state.Awaiting {
		// A node that joined since the restore and is deleted before it reports is dropped. None joined while etcd was
		// down.
		node := o.Nodes.Or(nil)[name]
		hasJoined := !known.Has(name) && node != nil && reports[name] == nil && (r.HasAsked || !node.CreatedAt.Before(r.At))
		if !hasJoined {
			pending[name] = r.Pending[name]
		}
	}
	if r.HasAsked, r.Pending = true, pending; state.Complete() {
		r.IsSettled, r.MissingSince = true, nil
	}
}

// nextTimeout is when the next missing node need not report any more; zero for never.
func (r *restore) nextTimeout(now time.Time) (next time.Time) {
	for _, since := range r.MissingSince {
		if at := since.Add(missingNodeTimeout); at.After(now) {
			next = EarliestNonZero(next, at)
		}
	}
	return next
}

// isAcknowledged reports whether an operator has acknowledged this very restore, so that no node must report.
func (r *restore) isAcknowledged(o *judge.Observation) bool {
	return !o.Acknowledged.Before(r.At.Truncate(time.Second)) && !o.Acknowledged.After(o.Now)
}

func reportsByName(o *judge.Observation) map[string]*podstate.Report {
	reports := make(map[string]*podstate.Report, len(o.Reports.Or(nil)))
	for _, r := range o.Reports.Or(nil) {
		reports[r.Name] = r
	}
	return reports
}
