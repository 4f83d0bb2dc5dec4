package reconciler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// restoreGate says why nothing may be released because of a restore; "" where it may.
func (h *History) restoreGate(j *judge.Judgement) string {
	o := j.Observation
	if o.Restored != "" {
		return restoreSeen(o.Restored)
	}
	if h.storedRestore.unread != nil {
		return restoresUnread(h.storedRestore.unread)
	}
	return h.restoreState(j).Text()
}

// goneFor is how long a Node must have been gone before it is not waited for: nodes
// are deleted and join again under the same name.
const goneFor = time.Hour

// restoreState is what is known of the last restore in a pass; nil where there was none.
func (h *History) restoreState(j *judge.Judgement) *judge.RestoreState {
	r := &h.restore
	if r.at.IsZero() || j.WithoutAgents {
		return nil
	}
	state := &judge.RestoreState{Restored: r.at, Why: r.why, Awaiting: []string{}}
	if r.settled || r.acknowledged(j.Observation) {
		return state
	}
	reports := reportsByName(j.Observation)
	for name := range r.nodesAsked(j) {
		report := reports[name]
		if r.awaits(name, report, j.Observation) {
			state.Awaiting = append(state.Awaiting, name)
			if r.lost[name] && j.Observation.Nodes[name] == nil && (report == nil || len(j.Observation.Nodes) > 0) {
				state.Lost = append(state.Lost, name)
			}
			if node := j.Observation.Nodes[name]; node != nil && node.Dead() {
				state.Tainted = append(state.Tainted, name)
			}
		}
	}
	slices.Sort(state.Awaiting)
	slices.Sort(state.Lost)
	slices.Sort(state.Tainted)
	return state
}

// nodesAsked are the nodes that a restore asks for: those that should have an agent or have
// a report, and those of which that was known before.
func (r *restore) nodesAsked(j *judge.Judgement) sets.Set[string] {
	all := sets.KeySet(j.Nodes).Union(sets.KeySet(r.lost)).Union(sets.KeySet(r.gone))
	return all.Union(r.awaited)
}

// awaits reports whether a node has yet to write its report. That it is dead, or that
// somebody has deleted its Node object since the restore and an hour ago, is proof that
// it has none to write. An object that the restore itself has lost proves nothing: what
// ran there runs on. Of a node that was not known before, and of which the restore has
// left the report alone, the object had been deleted before the backup.
func (r *restore) awaits(name string, report *podstate.Report, o *judge.Observation) bool {
	node := o.Nodes[name]
	switch {
	case report != nil && r.wroteSince(report):
		return false
	case node != nil:
		return !node.Dead() || r.taints.doubts(node)
	}
	since, gone := r.gone[name]
	return !gone || o.Now.Sub(since) < goneFor
}

// wroteSince reports whether a report was written since, or confirmed. An agent may have noticed
// the restore before this process did, or before the agent by whose word it is dated, which was
// cut off or asked an API server whose clock is behind: it has written since the last pass
// before it, or the report itself says what the agent noticed, and it confirms that by now,
// when it would have noticed another one. It has no cause to write again. Nor has one that
// began after the restore and before this process noticed it: see renewedSince.
func (r *restore) wroteSince(report *podstate.Report) bool {
	if !report.Written.Before(r.at) || r.renewedSince(report) {
		return true
	}
	note, there := report.Annotations[v1alpha1.RestoreAnnotation]
	noticed := there && note == report.RestoreNote && r.at.Sub(report.RestoreSeen) <= sameRestore
	return (noticed || !r.intact.IsZero() && report.Written.After(r.intact)) && !report.Renewed.Before(r.at)
}

// clocksDiffer is how far the clocks of API servers may be apart, at the most.
const clocksDiffer = time.Minute

// renewedSince reports whether an agent has confirmed its report since a quorum read that was
// made after the restore, or before it: the Lease that the backup has is no later than that.
// Who else writes the Lease renews nothing, and one of a later backup is too old.
func (r *restore) renewedSince(report *podstate.Report) bool {
	first, known := r.leases[report.Name]
	if !known || report.Renewed.Before(r.at.Add(-clocksDiffer)) {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(report.LeaseVersion, first)
	return err == nil && order > 0
}

// noteLeases takes in which versions the Leases have at first, or an earlier one that is read
// later: the first read was of before the restore. What watches have told may be of before what
// the backup has.
func (r *restore) noteLeases(o *judge.Observation) {
	if r.at.IsZero() || r.settled || o.Watched {
		return
	}
	for _, report := range o.Reports {
		first, known := r.leases[report.Name]
		if known {
			order, err := resourceversion.CompareResourceVersion(report.LeaseVersion, first)
			known = err != nil || order >= 0
		}
		if known || report.LeaseVersion == "" || r.wroteSince(report) {
			continue
		}
		if r.leases == nil {
			r.leases = map[string]string{}
		}
		r.leases[report.Name] = report.LeaseVersion
	}
}

// acknowledged reports whether an operator has said that nobody is to be waited for.
// Restores that are yet to come cannot be acknowledged.
func (r *restore) acknowledged(o *judge.Observation) bool {
	return !o.Acknowledged.Before(r.at.Truncate(time.Second)) && !o.Acknowledged.After(o.Now)
}

func reportsByName(o *judge.Observation) map[string]*podstate.Report {
	reports := make(map[string]*podstate.Report, len(o.Reports))
	for _, r := range o.Reports {
		reports[r.Name] = r
	}
	return reports
}
