package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
)

// sameRestore is within what time agents and passes tell of one restore.
const sameRestore = 10 * time.Minute

// byAgentOf is in what showed a restore where an agent reported it, to this replica or to another one.
const byAgentOf = "by the word of the agent of node "

// restore is what is remembered of the last restore of etcd, beyond this process where
// there is a right to that.
type restore struct {
	at time.Time // what was written from then on was written since; zero for none
	// intact is a time before it, where a pass showed it and at is of that pass: when all
	// was last well, or as an agent dates it.
	intact  time.Time
	why     string
	settled bool // nobody is waited for any more: asked once, a node that joins later is not asked
	// lost are the nodes that were known before and of which no pass since has seen the
	// Node object or a report that was written since.
	lost map[string]bool
	// gone is since when there is no Node object of a node that is waited for.
	gone    map[string]time.Time
	awaited sets.Set[string] // in the last pass
	// leases are the resourceVersions that the Leases of nodes which had not written yet had in
	// the first quorum read.
	leases map[string]string

	nodes  sets.Set[string]     // in the last pass: those that should have an agent or have a report
	missed map[string]time.Time // those that were not there any more in a pass, and when first
	told   map[string]string    // what reports have said of restores
	seen   time.Time            // when a pass showed one
	// undated is at of a restore for which nothing told when all was last well.
	undated time.Time
	taints  doubtedTaints
}

// Restored is when a pass last showed that etcd was restored; zero if none did.
func (h *History) Restored() time.Time { return h.restore.seen }

// LastRestore dates the last restore of etcd that is known, and says what showed it or
// whose word it is. It is zero where there was none.
func (h *History) LastRestore() (at time.Time, why string) { return h.restore.at, h.restore.why }

// objectName names an object whose version is remembered.
type objectName struct{ kind, name string }

// noteWrite takes in what version a pool has by a write of this process.
func (h *History) noteWrite(p *ippool.Pool) {
	if h.versions == nil {
		h.versions = map[objectName]string{}
	}
	h.versions[objectName{"IPPool", p.Ref()}] = p.ResourceVersion
}

// olderObject says which object is at an earlier version than this process has read by quorum
// or written before, "" for none. The backup may be younger than the last pass, or new writes
// have taken etcd's revision past that of the last pass already. What watches have told may
// lag behind, and shows nothing.
func (h *History) olderObject(o *judge.Observation) (sign string) {
	if o.Watched {
		return ""
	}
	versions := make(map[objectName]string, len(o.Pools)+2*len(o.Reports))
	if o.ReportsUnreadable {
		maps.Copy(versions, h.versions)
	}
	note := func(kind, name, version string) {
		n := objectName{kind, name}
		before, known := h.versions[n]
		if version == "" { // it was not read
			version = before
		}
		if order, err := resourceversion.CompareResourceVersion(version, before); known && err == nil && order < 0 && sign == "" {
			sign = fmt.Sprintf("%s %s is at resourceVersion %s after %s", kind, name, version, before)
		}
		versions[n] = version
	}
	for _, p := range o.Pools {
		note("IPPool", p.Ref(), p.ResourceVersion)
	}
	for _, r := range o.Reports {
		note("SandboxReport", r.Name, r.ResourceVersion)
		note("Lease", r.Name, r.LeaseVersion)
	}
	h.versions = versions
	return sign
}

// checkRevision notices that etcd was restored: its revision, or an object's, ran backwards.
func (h *History) checkRevision(o *judge.Observation) {
	if older := h.olderObject(o); o.Restored == "" {
		o.Restored = older
	}
	if o.Revision != 0 && o.Revision < h.revision && o.Restored == "" {
		o.Restored = fmt.Sprintf("resourceVersion %d after %d", o.Revision, h.revision)
	}
	if o.Revision != 0 {
		h.revision = o.Revision
	}
	if o.Restored != "" { // at once: what follows may fail
		h.noteRestore(o)
	}
}

// noteRestore notes a restore that a pass has shown. What was seen before it is no
// ground for what waits to be confirmed.
func (h *History) noteRestore(o *judge.Observation) {
	r, now := &h.restore, o.Now
	if !r.seen.Before(now) {
		return
	}
	intact := o.Intact
	if intact.IsZero() {
		intact = h.last
	}
	byAgent := !r.at.Equal(r.seen) && !r.settled && now.Sub(r.at) <= sameRestore
	if byAgent && (intact.IsZero() || r.at.Before(intact)) {
		intact = r.at // an agent has dated it better
	}
	r.seen = now
	r.begin(now, o.Restored, time.Time{})
	r.intact = intact
	if intact.IsZero() {
		r.undated = now
	}
	h.resetConfirmations()
}

// resetConfirmations has what waits to be confirmed begin again: what was seen before a restore
// is no ground for it.
func (h *History) resetConfirmations() {
	for _, s := range h.candidates {
		s.confirmation.reset()
	}
}

// begin begins with a restore. What may be lost by it is what there was in the last pass
// and what was missed since a time, and what one before it had lost.
func (r *restore) begin(at time.Time, why string, since time.Time) {
	lost := maps.Clone(r.lost)
	if lost == nil {
		lost = map[string]bool{}
	}
	for name := range r.nodes {
		lost[name] = true
	}
	for name, missed := range r.missed {
		if missed.After(since) {
			lost[name] = true
		}
	}
	r.at, r.intact, r.why, r.settled = at, time.Time{}, why, false
	r.lost, r.gone, r.awaited, r.leases = lost, map[string]time.Time{}, nil, nil
	r.taints = doubtedTaints{all: true}
}

// noteRestores takes in what reports say of restores. Several may tell of one: the
// first dates it. What an agent has said once is no news as long as it stays.
func (h *History) noteRestores(o *judge.Observation) {
	r := &h.restore
	told := make(map[string]string, len(r.told))
	var last time.Time
	var by string
	// A process whose first pass shows a restore has nothing to date it by: agents that
	// were faster have no cause to write again.
	undated := !r.at.IsZero() && r.at.Equal(r.undated)
	for _, report := range o.Reports {
		if report.RestoreSeen.IsZero() {
			continue
		}
		if undated && report.RestoreSeen.Before(r.at) && (r.intact.IsZero() || report.RestoreSeen.Before(r.intact)) {
			r.intact = report.RestoreSeen
		}
		before, known := r.told[report.Name]
		if told[report.Name] = report.RestoreNote; known && before == report.RestoreNote {
			continue
		}
		at := report.RestoreSeen
		if at.After(o.Now) {
			at = o.Now
		}
		if at.After(last) {
			last, by = at, report.Name
		}
	}
	r.told = told
	if !last.IsZero() && (r.at.IsZero() || last.After(r.at.Add(sameRestore))) {
		r.begin(last, byAgentOf+by, last)
		h.resetConfirmations()
	}
}

// noteMissed takes in what the source knew of nodes before the first pass. Where there
// are no reports it is the sign that there were some.
func (h *History) noteMissed(o *judge.Observation) {
	if h.last.IsZero() && len(o.Missed) > 0 {
		h.reports, h.restore.missed = true, maps.Clone(o.Missed)
	}
}

// noteNodes takes in which nodes there are.
func (h *History) noteNodes(j *judge.Judgement) {
	r, o := &h.restore, j.Observation
	if j.WithoutAgents || o.ReportsUnreadable {
		return
	}
	there := sets.New[string]()
	for name, state := range j.Nodes {
		if state != judge.NodeLost {
			there.Insert(name)
		}
	}
	missed := map[string]time.Time{}
	for name := range r.nodes.Difference(there) {
		missed[name] = o.Now
	}
	for name, since := range r.missed {
		if !there.Has(name) && o.Now.Sub(since) <= sameRestore {
			missed[name] = since
		}
	}
	r.nodes, r.missed = there, missed
}

// noteAwaited takes in for whom a restore still waits, and settles it when that is
// nobody. A Node object that is missing settles it only where it was asked for by quorum.
func (h *History) noteAwaited(j *judge.Judgement) {
	r, o := &h.restore, j.Observation
	r.acknowledgeTaints(j)
	if r.at.IsZero() || r.settled || j.WithoutAgents || o.Restored != "" || o.ReportsUnreadable {
		return
	}
	reports, excused, first := reportsByName(o), false, r.awaited == nil
	known := sets.KeySet(r.lost).Union(sets.KeySet(r.gone)).Union(r.awaited)
	r.awaited = r.nodesAsked(j) // one that is seen again is not lost any more, and still waited for
	for name := range r.awaited {
		report, node := reports[name], o.Nodes[name]
		switch {
		case node != nil || report != nil && r.wroteSince(report):
			delete(r.lost, name)
			delete(r.gone, name)
		case r.lost[name] || len(o.Nodes) == 0:
		case r.gone[name].IsZero():
			r.gone[name] = o.Now
		default:
			excused = excused || o.Now.Sub(r.gone[name]) >= goneFor
		}
	}
	state := h.restoreState(j)
	r.awaited = sets.New(slices.DeleteFunc(slices.Clone(state.Awaiting), func(name string) bool {
		// Nothing is lost when a node that joined since goes before it reports. While etcd was away none was created.
		node := o.Nodes[name]
		return !known.Has(name) && node != nil && reports[name] == nil && (!first || !node.Created.Before(r.at))
	})...)
	if !state.Complete() || excused && o.Revision == 0 && !r.acknowledged(o) {
		return
	}
	r.settled, r.lost, r.gone, r.awaited, r.leases = true, nil, nil, nil, nil
}

// due is when the next node that is gone does not count any more; zero for never.
func (r *restore) due(now time.Time) (next time.Time) {
	for _, since := range r.gone {
		if at := since.Add(goneFor); at.After(now) {
			next = Sooner(next, at)
		}
	}
	return next
}
