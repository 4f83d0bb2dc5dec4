package restore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// missingNodeTimeout is how long a Node object must be missing before its node need not report: it may join again.
const missingNodeTimeout = time.Hour

// AcknowledgedAnnotation on the reconciler's namespace ends the wait for nodes after the restore of etcd whose ID it
// has.
const AcknowledgedAnnotation = "ip-reconcile.dev/restore-acknowledged"

// Acknowledged is the ID in AcknowledgedAnnotation; "" for none.
func Acknowledged(annotations map[string]string) string { return annotations[AcknowledgedAnnotation] }

// Pauses says why a restore pauses releases; "" where it does not.
func (s State) Pauses(j *judge.Judgement) string {
	if o := j.Observation; o.Restored != "" {
		return "etcd was restored (" + o.Restored + "): a pass that began before releases nothing"
	}
	if err := s.stored.err; err != nil {
		return fmt.Sprintf("cannot read the etcd restore state: %v", err)
	}
	if err := s.stored.failure; err != nil && s.stored.id != s.last.ID {
		return fmt.Sprintf("cannot store the etcd restore state: %v", err)
	}
	text := cmp.Or(s.waitingText(j.Observation.Now), s.Status(j).Text())
	if text == "" && !s.isReadSince() && !s.last.IsSettled && !s.last.isAcknowledged(j.Observation) && !j.WithoutAgents {
		text = "etcd was restored (" + s.last.Why + "): a pass that began before this was known releases nothing"
	}
	return text
}

// Status returns what a judgement shows of the last restore; nil for none.
func (s State) Status(j *judge.Judgement) *Status {
	r, o := s.last, j.Observation
	if r.ID == "" || j.WithoutAgents {
		return nil
	}
	status := &Status{ID: r.ID, Restored: r.At, Why: r.Why, Awaiting: []string{}}
	if s.stored.id != r.ID && (s.stored.isRead || o.Static) { // nobody else knows the ID
		status.ID = ""
	}
	if r.IsSettled || r.isAcknowledged(o) {
		return status
	}
	reports := reportsByName(o)
	for _, name := range slices.Sorted(maps.Keys(r.nodesToReport(j))) {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		if !s.awaits(name, report, o) {
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

// withAwaited records, of a quorum read, which nodes have yet to report. The restore is settled when none has. The pass
// that detects the restore records all: what joins afterwards has not been there before.
func (s State) withAwaited(j *judge.Judgement) State {
	r, o := &s.last, j.Observation
	if r.ID == "" || r.IsSettled || j.WithoutAgents || !o.Reports.IsKnown() || o.Watched {
		return s
	}
	known := sets.KeySet(r.Pending).Union(sets.KeySet(r.MissingSince))
	reports, pending := reportsByName(o), map[string]bool{}
	if s.isReadSince() {
		s.last = s.last.withUnregistered(s.unregistered(o, reports))
		r.Pending, r.MissingSince = s.found(j, reports)
	} else {
		maps.Copy(pending, r.Pending)
	}
	status := s.Status(j)
	for _, name := range status.Awaiting {
		// A node that joined since the restore and is deleted before it reports is dropped, also if that shows while Nodes
		// are unknown. None joined while etcd was down.
		node := o.Nodes.Or(nil)[name]
		isNew := r.HasAsked || node != nil && !node.CreatedAt.Before(r.At)
		if hasJoined := isNew && !known.Has(name) && reports[name] == nil; !hasJoined {
			pending[name] = r.Pending[name]
		}
	}
	r.HasAsked, r.Pending = r.HasAsked || o.Nodes.IsKnown(), pending
	if status.Complete() && (s.isReadSince() || r.isAcknowledged(o)) {
		r.IsSettled, r.MissingSince = true, nil
	}
	return s
}

// found are Pending and MissingSince, where a node with a Node object, or with a report since, is neither lost nor
// missing.
func (s State) found(j *judge.Judgement, reports map[string]*podstate.Report) (
	pending map[string]bool, missing map[string]time.Time,
) {
	r, o := s.last, j.Observation
	pending, missing = map[string]bool{}, map[string]time.Time{}
	maps.Copy(pending, r.Pending)
	maps.Copy(missing, r.MissingSince)
	for name := range r.nodesToReport(j) {
		report, node := reports[name], o.Nodes.Or(nil)[name]
		switch {
		case node != nil || report != nil && s.isSince(report):
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
func (r last) nodesToReport(j *judge.Judgement) sets.Set[string] {
	return sets.KeySet(j.Nodes).Union(sets.KeySet(r.Pending)).Union(sets.KeySet(r.MissingSince))
}

// awaits reports whether a node has yet to report. A node need not report if it is proven dead, or if its Node object
// was deleted since the restore and an hour ago; while Nodes are unknown it may have joined again. A Node object that
// the restore itself has lost proves nothing: its pods run on.
func (s State) awaits(name string, report *podstate.Report, o *facts.Observation) bool {
	node := o.Nodes.Or(nil)[name]
	switch {
	case report != nil && s.isSince(report):
		return false
	case node != nil:
		return !node.IsDead() || s.last.doubtsTaint(node)
	}
	since, isMissing := s.last.MissingSince[name]
	return !isMissing || !o.Nodes.IsKnown() || o.Now.Sub(since) < missingNodeTimeout
}

// isSince reports whether a report was written or confirmed since the restore: its Lease confirms it, and was written
// after the read that set Since. All Leases count by one revision of etcd: what was written after that read has a
// greater one, and what the backup had was read. No clock is asked.
//
// Caches may still have a younger report from before the restore. It opens the gate for a first check only, and settles
// nothing.
func (s State) isSince(report *podstate.Report) bool {
	return s.isReadSince() && s.last.Since != "" &&
		(report.IsLocal || !report.ConfirmedAt.IsZero() && isNewer(report.LeaseVersion, s.last.Since))
}

// withSince sets Since in the first quorum read since the restore. Leases that a LIST lacks by then are older, too.
func (r last) withSince(o *facts.Observation) last {
	if r.ID == "" || r.Since != "" || r.IsSettled || !o.AgentLeases.IsKnown() || !o.Reports.IsKnown() {
		return r
	}
	newest, _ := parseVersion(o.AgentLeases.Revision())
	for _, report := range o.Reports.Or(nil) {
		version, _ := parseVersion(report.LeaseVersion)
		newest = max(newest, version)
	}
	r.Since = strconv.FormatUint(newest, 10)
	return r
}

// AwaitsRead reports whether the next quorum read says what is since the last restore, so that it should follow soon.
// It says nothing without agents, and where reports or Leases cannot be read.
func (s State) AwaitsRead(j *judge.Judgement) bool {
	r, o := s.last, j.Observation
	isReadable := !j.WithoutAgents && o.Reports.IsKnown() && o.AgentLeases.IsKnown()
	return isReadable && r.ID != "" && r.Since == "" && !r.IsSettled && s.stored.err == nil && s.stored.failure == nil
}

// isNewer reports whether a resourceVersion is greater than another; false where one of them is not a number, since
// nothing is known of it then.
func isNewer(version, than string) bool {
	a, isNumber := parseVersion(version)
	b, areNumbers := parseVersion(than)
	return isNumber && areNumbers && a > b
}

func parseVersion(version string) (n uint64, isNumber bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil
}

// isAcknowledged reports whether an operator has acknowledged this very restore, so that no node must report.
func (r last) isAcknowledged(o *facts.Observation) bool { return r.ID != "" && o.Acknowledged == r.ID }
