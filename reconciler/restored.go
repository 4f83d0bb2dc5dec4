package reconciler

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// sameRestore is the time within which what agents note and what passes detect is one restore.
const sameRestore = 10 * time.Minute

// byAgentOf is in Why where an agent reported the restore, to this replica or to another one.
const byAgentOf = "by the word of the agent of node "

// restore is the last restore of etcd that this process knows of. The exported fields are kept for other processes:
// see storedRestore.
type restore struct {
	// At is a time after the backup, by the API server's clock: when this process or another one detected the restore,
	// or as an agent dates it. An object that was written at that time or later was written since the restore.
	// It is zero where no restore is known.
	At time.Time `json:"restored,omitzero"`
	// Noticed is a time after the restore: when a pass first knew of it.
	Noticed time.Time `json:"noticed,omitzero"`
	// Why says what showed the restore. Note is the text of the agent's note, where that showed it.
	Why  string `json:"why,omitempty"`
	Note string `json:"note,omitempty"`
	// Settled says that every node has reported. A node that joins later is not waited for.
	Settled bool `json:"settled,omitempty"`
	// Asked says that a pass since the restore has asked all nodes.
	Asked bool `json:"asked,omitempty"`
	// Awaited are the nodes that had not reported in the last pass. True is for one that was known before the restore
	// and that has neither a Node object nor a report since: the restore may have lost it.
	Awaited map[string]bool `json:"awaited,omitempty"`
	// Gone is since when the Node object of a node is missing that had one since the restore.
	Gone map[string]time.Time `json:"gone,omitempty"`
	// Taints and Boots are what is doubted: see taints.go.
	Taints    map[string]string `json:"doubted,omitempty"`
	Boots     map[string]string `json:"doubtedBoots,omitempty"`
	DoubtsAll bool              `json:"doubtsAll,omitempty"`

	missing map[string]time.Time // since when a node is missing that was known; zero for one that was there in the last pass
	seen    time.Time            // when a pass of this process detected a restore
}

// Restored is when a pass last detected that etcd was restored; zero if none did.
func (h *History) Restored() time.Time { return h.restore.seen }

// LastRestore is the date of the last restore of etcd that is known, and what showed it. The date is zero where none
// is known.
func (h *History) LastRestore() (at time.Time, why string) { return h.restore.At, h.restore.Why }

// objectName is the kind and the name of an object whose version is remembered.
type objectName struct{ kind, name string }

// noteWrite remembers the version of a pool that this process has written.
func (h *History) noteWrite(p *ippool.Pool) {
	if h.versions == nil {
		h.versions = map[objectName]string{}
	}
	h.versions[objectName{"IPPool", p.Ref()}] = p.ResourceVersion
}

// olderObject returns which object has an older version than this process has read by quorum or written before, or "".
// It shows a restore that etcd's revision does not: the backup may be younger than the last pass, or new writes may
// have taken the revision past that of the last pass already. Watches may lag behind, and show nothing.
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

// checkRevision detects a restore: etcd's revision, or an object's, ran backwards.
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

// noteRestore notes a restore that a pass has detected, once for each pass.
func (h *History) noteRestore(o *judge.Observation) {
	if h.restore.seen.Before(o.Now) {
		h.restore.seen = o.Now
		h.beginRestore(restore{At: o.Now, Noticed: o.Now, Why: o.Restored}, time.Time{})
	}
}

// noteRestores reads the agents' notes of restores. Several notes may be of one restore: the first dates it.
// A note that stays is no news, although its date may move: see podstate.Report.RestoreNote.
func (h *History) noteRestores(o *judge.Observation) {
	r := restore{Noticed: o.Now}
	for _, report := range o.Reports {
		at := report.RestoreDetectedAt
		if at.After(o.Now) {
			at = o.Now
		}
		if at.After(r.At) && (report.RestoreNote == "" || report.RestoreNote != h.restore.Note) {
			r.At, r.Why, r.Note = at, byAgentOf+report.Name, report.RestoreNote
		}
	}
	if !r.At.IsZero() && (h.restore.At.IsZero() || r.At.After(h.restore.At.Add(sameRestore))) {
		h.beginRestore(r, r.At)
	}
}

// beginRestore begins to wait for all nodes. A restore may have lost every node that was there in the last pass, that
// has been missing since a time, or that an earlier restore had lost. What was seen before it confirms nothing.
func (h *History) beginRestore(next restore, since time.Time) {
	r := &h.restore
	next.DoubtsAll, next.missing, next.seen = true, r.missing, r.seen
	for _, name := range r.lost() {
		next.lose(name)
	}
	for name, missing := range r.missing {
		if missing.IsZero() || missing.After(since) {
			next.lose(name)
		}
	}
	*r = next
	h.resetConfirmations()
}

// lose notes a node as one that the restore may have lost.
func (r *restore) lose(name string) {
	if r.Awaited == nil {
		r.Awaited = map[string]bool{}
	}
	r.Awaited[name], r.Settled = true, false
}

// lost are the nodes that the restore may have lost.
func (r *restore) lost() (names []string) {
	for name, isLost := range r.Awaited {
		if isLost {
			names = append(names, name)
		}
	}
	return names
}

// resetConfirmations has what waits to be confirmed begin again.
func (h *History) resetConfirmations() {
	for _, s := range h.candidates {
		s.confirmation.reset()
	}
}

// noteMissed takes which nodes the source has missed before the first pass: then there were reports.
func (h *History) noteMissed(o *judge.Observation) {
	if h.last.IsZero() && len(o.MissingReports) > 0 {
		h.reports, h.restore.missing = true, maps.Clone(o.MissingReports)
	}
}

// noteNodes remembers which nodes there are, and for a while which were.
func (h *History) noteNodes(j *judge.Judgement) {
	r, now := &h.restore, j.Observation.Now
	if j.WithoutAgents || j.Observation.ReportsUnreadable {
		return
	}
	missing := map[string]time.Time{}
	for name, since := range r.missing {
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) <= sameRestore {
			missing[name] = since
		}
	}
	for name, state := range j.Nodes {
		if state != judge.NodeDeadOrMissing {
			missing[name] = time.Time{}
		}
	}
	r.missing = missing
}
