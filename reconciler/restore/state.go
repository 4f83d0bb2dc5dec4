package restore

import (
	"maps"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// State is what one process knows of restores of etcd, as a value: nothing changes it, and each pass makes the next
// one. The zero State is that of a process that has just started.
type State struct {
	last           last
	stored         stored
	number         int                  // how many restores this process has noted, by any evidence
	passDetectedAt time.Time            // when an observation of this process showed a restore
	hasPassed      bool                 // a pass has ended that did not detect a restore
	sawReports     bool                 // see SawReports
	knownNodes     map[string]time.Time // since when a known node is missing; zero for a node of the last pass
	revision       uint64               // etcd's revision in the last observation
	versions       map[string]string    // resourceVersions last read by quorum, or written, by kind and name
}

// last is the last restore of etcd that a process knows of. Processes share its exported fields.
type last struct {
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
	// Taints are in doubt: see State.DoubtsTaint.
	Taints    map[string]string `json:"doubted,omitempty"`
	DoubtsAll bool              `json:"doubtsAll,omitempty"`
}

// Last returns the date of the last known restore of etcd, zero for none, and what showed it.
func (s State) Last() (at time.Time, why string) { return s.last.At, s.last.Why }

// IsNewerThan reports whether s knows of a restore that an earlier State of the process does not know of. What stood
// before that restore proves nothing.
func (s State) IsNewerThan(earlier State) bool { return s.number != earlier.number }

// Observe is the State before an observation is judged. restored is what shows that etcd was restored since earlier
// observations, "" for nothing.
func (s State) Observe(o *facts.Observation) (next State, restored string) {
	s, restored = s.Detect(o)
	if restored == "" { // otherwise the Nodes may be from before
		s.last = s.last.withTaints(o)
	}
	return s.withReports(o), restored
}

// Settle is the State after an observation was judged in a pass.
func (s State) Settle(j *judge.Judgement) State {
	o := j.Observation
	s.hasPassed = s.hasPassed || o.Restored == ""
	s.sawReports = s.sawReports || len(o.Reports.Or(nil)) > 0
	s.knownNodes = s.nodesAfter(j)
	s.last = s.last.withoutAcknowledged(j)
	return s.withAwaited(j)
}

// nodesAfter are the known nodes after a pass. It keeps missing ones for a while.
func (s State) nodesAfter(j *judge.Judgement) map[string]time.Time {
	now := j.Observation.Now
	if j.WithoutAgents || !j.Observation.Reports.IsKnown() {
		return s.knownNodes
	}
	known := map[string]time.Time{}
	for name, since := range s.knownNodes {
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) <= SameRestoreWithin {
			known[name] = since
		}
	}
	for name, state := range j.Nodes {
		if state != facts.NodeDeadOrMissing {
			known[name] = time.Time{}
		}
	}
	return known
}

// begin starts to wait for reports of all nodes. The restore may have lost each node of the last pass, each that is
// missing since after the given time, and each that an earlier restore lost. Earlier passes confirm nothing.
func (s State) begin(next last, since time.Time) State {
	lost := s.last.lostNodes()
	for name, missing := range s.knownNodes {
		if missing.IsZero() || missing.After(since) {
			lost = append(lost, name)
		}
	}
	next.DoubtsAll = true
	s.last = next.withLost(lost)
	s.number++
	return s
}

func (r last) withLost(names []string) last {
	if len(names) == 0 {
		return r
	}
	pending := make(map[string]bool, len(r.Pending)+len(names))
	maps.Copy(pending, r.Pending)
	for _, name := range names {
		pending[name] = true
	}
	r.Pending, r.IsSettled = pending, false
	return r
}

func (r last) lostNodes() (names []string) {
	for name, isLost := range r.Pending {
		if isLost {
			names = append(names, name)
		}
	}
	return names
}

// noteFor is for how long agents report a restore of etcd (agent/restore.go, restoreNoteFor).
const noteFor = 24 * time.Hour

// IsRecent reports whether etcd was restored within a day. This process must have detected it, or the agents of most
// nodes report it: a single agent is not enough.
func (s State) IsRecent(j *judge.Judgement) bool {
	now, reporters := j.Observation.Now, 0
	for _, report := range j.Observation.Reports.Or(nil) {
		if now.Sub(report.RestoreDetectedAt) <= noteFor {
			reporters++
		}
	}
	return 2*reporters > len(j.Nodes) ||
		now.Sub(s.passDetectedAt) <= noteFor && !strings.Contains(s.last.Why, reportedByAgent)
}
