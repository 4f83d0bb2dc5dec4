package restore

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// missingNodeTimeout is how long a Node object must be missing before its node need not report: it may join again.
const missingNodeTimeout = time.Hour

// AcknowledgedAnnotation on the reconciler's namespace ends the wait for nodes after restores of etcd up to its RFC
// 3339 time.
const AcknowledgedAnnotation = "ip-reconcile.dev/restore-acknowledged"

// Acknowledged is the time of AcknowledgedAnnotation; zero for none.
func Acknowledged(annotations map[string]string) time.Time {
	t, _ := time.Parse(time.RFC3339, annotations[AcknowledgedAnnotation])
	return t
}

// Pauses says why a restore pauses releases; "" where it does not.
func (s State) Pauses(j *judge.Judgement) string {
	if o := j.Observation; o.Restored != "" {
		return "etcd was restored (" + o.Restored + "): a pass that began before releases nothing"
	}
	if err := s.stored.err; err != nil {
		return fmt.Sprintf("cannot read the etcd restore state: %v", err)
	}
	return s.Status(j).Text()
}

// Status returns what a judgement shows of the last restore; nil for none.
func (s State) Status(j *judge.Judgement) *judge.RestoreState {
	r, o := s.last, j.Observation
	if r.At.IsZero() || j.WithoutAgents {
		return nil
	}
	status := &judge.RestoreState{Restored: r.At, Why: r.Why, Awaiting: []string{}}
	if r.IsSettled || r.isAcknowledged(o) {
		return status
	}
	reports := reportsByName(o)
	for _, name := range slices.Sorted(maps.Keys(r.nodesToReport(j))) {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		if !r.awaits(name, report, o) {
			continue
		}
		status.Awaiting = append(status.Awaiting, name)
		if r.Pending[name] && node == nil && (report == nil || o.Nodes.IsKnown()) {
			status.LostNodes = append(status.LostNodes, name)
		}
		if node != nil && node.IsDead() {
			status.TaintedNodes = append(status.TaintedNodes, name)
		}
		if report != nil && report.IsUnread() {
			status.UnreadNodes = append(status.UnreadNodes, name)
		}
	}
	return status
}

// NextTimeout is when the next missing node need not report any more; zero for never.
func (s State) NextTimeout(now time.Time) (next time.Time) {
	for _, since := range s.last.MissingSince {
		if at := since.Add(missingNodeTimeout); at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// withAwaited records, of a quorum read, which nodes have yet to report. The restore is settled when none has.
func (s State) withAwaited(j *judge.Judgement) State {
	r, o := &s.last, j.Observation
	if r.At.IsZero() || r.IsSettled || j.WithoutAgents || o.Restored != "" || !o.Reports.IsKnown() || o.Watched {
		return s
	}
	known := sets.KeySet(r.Pending).Union(sets.KeySet(r.MissingSince))
	reports := reportsByName(o)
	r.Pending, r.MissingSince = r.found(j, reports)
	status, pending := s.Status(j), map[string]bool{}
	for _, name := range status.Awaiting {
		// A node that joined since the restore and is deleted before it reports is dropped. None joined while etcd was
		// down.
		node := o.Nodes.Or(nil)[name]
		hasJoined := !known.Has(name) && node != nil && reports[name] == nil && (r.HasAsked || !node.CreatedAt.Before(r.At))
		if !hasJoined {
			pending[name] = r.Pending[name]
		}
	}
	if r.HasAsked, r.Pending = true, pending; status.Complete() {
		r.IsSettled, r.MissingSince = true, nil
	}
	return s
}

// found are Pending and MissingSince, where a node with a Node object, or with a report since, is neither lost nor
// missing.
func (r *last) found(j *judge.Judgement, reports map[string]*podstate.Report) (
	pending map[string]bool, missing map[string]time.Time,
) {
	o := j.Observation
	pending, missing = map[string]bool{}, map[string]time.Time{}
	maps.Copy(pending, r.Pending)
	maps.Copy(missing, r.MissingSince)
	for name := range r.nodesToReport(j) {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		switch {
		case node != nil || report != nil && r.isAfterRestore(report):
			if pending[name] {
				pending[name] = false
			}
			delete(missing, name)
		case !pending[name] && o.Nodes.IsKnown() && missing[name].IsZero():
			missing[name] = o.Now
		}
	}
	return pending, missing
}

// nodesToReport are the nodes that should have an agent, those that have a report, and those that a pass has recorded.
func (r *last) nodesToReport(j *judge.Judgement) sets.Set[string] {
	return sets.KeySet(j.Nodes).Union(sets.KeySet(r.Pending)).Union(sets.KeySet(r.MissingSince))
}

// awaits reports whether a node has yet to report. A node need not report if it is proven dead, or if its Node object
// was deleted since the restore and an hour ago. A Node object that the restore itself has lost proves nothing: its
// pods run on.
func (r *last) awaits(name string, report *podstate.Report, o *facts.Observation) bool {
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
func (r *last) isAfterRestore(report *podstate.Report) bool {
	return !report.WrittenAt.Before(r.At.Add(v1alpha1.MaxClockDifference)) ||
		!report.ConfirmedAt.Before(r.DetectedAt.Add(v1alpha1.MaxClockDifference))
}

// isAcknowledged reports whether an operator has acknowledged this very restore, so that no node must report.
func (r *last) isAcknowledged(o *facts.Observation) bool {
	return !o.Acknowledged.Before(r.At.Truncate(time.Second)) && !o.Acknowledged.After(o.Now)
}

func reportsByName(o *facts.Observation) map[string]*podstate.Report {
	reports := make(map[string]*podstate.Report, len(o.Reports.Or(nil)))
	for _, r := range o.Reports.Or(nil) {
		reports[r.Name] = r
	}
	return reports
}
