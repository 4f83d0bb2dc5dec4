package reconciler

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// sameRestoreWithin is the time within which a restore that an agent reports and one that a pass detects are the same.
const sameRestoreWithin = 10 * time.Minute

// reportedByAgent begins Why where an agent reported the restore, to this replica or to another one.
const reportedByAgent = "reported by the agent on node "

// restore is the last restore of etcd that this process knows of. storedRestore keeps its exported fields.
type restore struct {
	// At is a time after the backup, by the API server's clock: when a process detected the restore, or the date that an
	// agent gives. An object that was written at that time or later was written since the restore. Zero is no restore.
	At         time.Time `json:"restored,omitzero"`
	DetectedAt time.Time `json:"detected,omitzero"` // a time after the restore: when a pass first knew of it
	Why        string    `json:"why,omitempty"`     // what showed the restore
	Note       string    `json:"note,omitempty"`    // the text of the agent's note, where that showed it
	IsSettled  bool      `json:"settled,omitempty"` // every node has reported; nodes that join later need not report
	HasAsked   bool      `json:"asked,omitempty"`   // a pass since the restore has listed the nodes that must report
	// Pending are the nodes without a report in the last pass. True marks a node that was known before the restore and
	// has neither a Node object nor a report since: the restore may have lost it.
	Pending map[string]bool `json:"awaited,omitempty"`
	// MissingSince is since when the Node object of a node is missing that had one since the restore.
	MissingSince map[string]time.Time `json:"gone,omitempty"`
	// Taints are in doubt: see doubtsTaint.
	Taints    map[string]string `json:"doubted,omitempty"`
	DoubtsAll bool              `json:"doubtsAll,omitempty"`

	knownNodes     map[string]time.Time // since when a known node is missing; zero for a node of the last pass
	passDetectedAt time.Time            // when a pass of this process detected a restore
}

// LastRestore returns the date of the last known restore of etcd, zero for none, and what showed it.
func (h *History) LastRestore() (at time.Time, why string) { return h.restore.At, h.restore.Why }

// noteVersion records the version of a pool that this process has written, or read under the Lease.
func (h *History) noteVersion(p *ippool.Pool) {
	if h.versions == nil {
		h.versions = map[string]string{}
	}
	h.versions["IPPool "+p.Ref()] = p.ResourceVersion
}

// olderObject returns which object has an older version than this process has read by quorum or written before; "" for
// none. It detects restores that etcd's revision does not show: the backup may be younger than the last pass, or new
// writes may have raised the revision again. Watches lag behind and prove nothing.
func (h *History) olderObject(o *judge.Observation) (sign string) {
	if o.Watched {
		return ""
	}
	versions := make(map[string]string, len(o.Pools)+2*len(o.Reports.Or(nil)))
	if !o.Reports.IsKnown() {
		maps.Copy(versions, h.versions)
	}
	note := func(object, version string) {
		before, known := h.versions[object]
		if version == "" { // was not read
			version = before
		}
		order, err := resourceversion.CompareResourceVersion(version, before)
		if known && err == nil && order < 0 && sign == "" {
			sign = fmt.Sprintf("%s is at resourceVersion %s after %s", object, version, before)
		}
		versions[object] = version
	}
	for _, p := range o.Pools {
		note("IPPool "+p.Ref(), p.ResourceVersion)
	}
	for _, r := range o.Reports.Or(nil) {
		note("SandboxReport "+r.Name, r.ResourceVersion)
		note("Lease "+r.Name, r.LeaseVersion)
	}
	h.versions = versions
	return sign
}

// checkRevision detects a restore by a revision of etcd, or a version of an object, that runs backwards.
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
	if o.Restored != "" { // at once, because later steps may fail
		h.noteRestore(o)
	}
}

// noteRestore records a restore that a pass has detected, once per pass.
func (h *History) noteRestore(o *judge.Observation) {
	if h.restore.passDetectedAt.Before(o.Now) {
		h.restore.passDetectedAt = o.Now
		h.beginRestore(restore{At: o.Now, DetectedAt: o.Now, Why: o.Restored}, time.Time{})
	}
}

// noteRestores reads the restores that agents report. Several reports may be of one restore: the first dates it.
// A note with the same text is the same restore, although its date may move: see podstate.Report.RestoreNote.
func (h *History) noteRestores(o *judge.Observation) {
	r := restore{DetectedAt: o.Now}
	for _, report := range o.Reports.Or(nil) {
		at := report.RestoreDetectedAt
		if at.After(o.Now) {
			at = o.Now
		}
		if at.After(r.At) && (report.RestoreNote == "" || report.RestoreNote != h.restore.Note) {
			r.At, r.Why, r.Note = at, reportedByAgent+report.Name, report.RestoreNote
		}
	}
	if !r.At.IsZero() && (h.restore.At.IsZero() || r.At.After(h.restore.At.Add(sameRestoreWithin))) {
		h.beginRestore(r, r.At)
	}
}

// beginRestore starts to wait for reports of all nodes. The restore may have lost each node of the last pass, each that
// is missing since after the given time, and each that an earlier restore lost. Earlier passes confirm nothing.
func (h *History) beginRestore(next restore, since time.Time) {
	r := &h.restore
	next.DoubtsAll, next.knownNodes, next.passDetectedAt = true, r.knownNodes, r.passDetectedAt
	for _, name := range r.lostNodes() {
		next.addLost(name)
	}
	for name, missing := range r.knownNodes {
		if missing.IsZero() || missing.After(since) {
			next.addLost(name)
		}
	}
	*r = next
	h.resetConfirmations()
}

func (r *restore) addLost(name string) {
	if r.Pending == nil {
		r.Pending = map[string]bool{}
	}
	r.Pending[name], r.IsSettled = true, false
}

func (r *restore) lostNodes() (names []string) {
	for name, isLost := range r.Pending {
		if isLost {
			names = append(names, name)
		}
	}
	return names
}

func (h *History) resetConfirmations() { h.memory = h.memory.Unconfirmed() }

// noteKnownNodes takes over the nodes that the source has missed before the first pass; they had reports.
func (h *History) noteKnownNodes(o *judge.Observation) {
	if h.lastCleanPass.IsZero() && len(o.MissingReports) > 0 {
		h.hasReports, h.restore.knownNodes = true, maps.Clone(o.MissingReports)
	}
}

// noteNodes records the nodes of a pass, and keeps missing ones for a while.
func (h *History) noteNodes(j *judge.Judgement) {
	r, now := &h.restore, j.Observation.Now
	if j.WithoutAgents || !j.Observation.Reports.IsKnown() {
		return
	}
	known := map[string]time.Time{}
	for name, since := range r.knownNodes {
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) <= sameRestoreWithin {
			known[name] = since
		}
	}
	for name, state := range j.Nodes {
		if state != judge.NodeDeadOrMissing {
			known[name] = time.Time{}
		}
	}
	r.knownNodes = known
}
