package restore

import (
	"crypto/rand"
	"maps"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// State is what one process knows of restores of etcd, as a value: nothing changes it, and each pass makes the next
// one. The zero State is that of a process that has just started.
type State struct {
	// IDs returns the ID of the nth restore that this process begins to wait for; nil for random ones.
	IDs func(n int) string
	// IsReader says that this process stores nothing, and releases nothing.
	IsReader bool

	last           last
	stored         stored
	number         int                    // how many restores this process has noted, by any evidence
	readID         string                 // see BeginRead
	passDetectedAt time.Time              // when an observation of this process showed a restore
	hasPassed      bool                   // a pass has ended that did not detect a restore
	sawReports     bool                   // see SawReports
	knownNodes     map[string]time.Time   // since when a known node is missing; zero for a node of the last pass
	versions       map[string]string      // resourceVersions last read by quorum, or written, by facts.Version.Object
	begun          map[string][]time.Time // by node, when its agent's nonces have begun an ID
	unanswered     []string               // nodes whose nonces have begun too many IDs lately, and must wait
}

// last is the last restore of etcd that a process knows of. Processes share its exported fields. No time decides what
// was written since the restore: see Since.
type last struct {
	ID       string    `json:"id,omitempty"`       // random; "" is no restore
	Replaces string    `json:"replaces,omitempty"` // the ID that it replaced
	At       time.Time `json:"restored,omitzero"`  // when it was detected, by the API server's clock
	Why      string    `json:"why,omitempty"`      // what showed the restore
	// Since is the resourceVersion of the agents' Leases in the first quorum read that began when the ID was stored; ""
	// until then. What was written since has a greater one.
	Since string `json:"since,omitempty"`
	// Nonces are the agents' nonces that this ID answers, by node.
	Nonces     map[string]answer `json:"nonces,omitempty"`
	AnswersAll bool              `json:"answersAll,omitempty"` // the text was too long for the nonces
	IsAgain    bool              `json:"again,omitempty"`      // see State.IsAgain
	IsSettled  bool              `json:"settled,omitempty"`    // every node has reported; nodes that join later need not
	HasAsked   bool              `json:"asked,omitempty"`      // a pass has listed the nodes that must report
	// Pending are the nodes without a report in the last pass. True marks a node that was known before the restore and
	// has neither a Node object nor a report since: the restore may have lost it.
	Pending map[string]bool `json:"awaited,omitempty"`
	// MissingSince is since when the Node object of a node is missing that had one since the restore.
	MissingSince map[string]time.Time `json:"gone,omitempty"`
	// Unregistered are nodes that have reported since, and whose Node object the restore has lost: see State.LosesNode.
	Unregistered map[string]bool `json:"unregistered,omitempty"`
	// Taints are in doubt: see State.DoubtsTaint.
	Taints    map[string]string `json:"doubted,omitempty"`
	DoubtsAll bool              `json:"doubtsAll,omitempty"`

	isDated bool // an earlier version stored it, without an ID
}

// Last returns when the last known restore of etcd was detected, zero for none, and what showed it.
func (s State) Last() (at time.Time, why string) { return s.last.At, s.last.Why }

// ID identifies the last known restore of etcd; "" for none.
func (s State) ID() string { return s.last.ID }

// IsAgain reports whether what showed the last restore may be of the one before: an agent whose node was still awaited
// has noted it, or one that has done so minutes ago. Releases wait for it as for any other.
func (s State) IsAgain() bool { return s.last.IsAgain }

// IsNewerThan reports whether s knows of a restore that an earlier State of the process does not know of. What stood
// before that restore proves nothing.
func (s State) IsNewerThan(earlier State) bool { return s.number != earlier.number }

// BeginRead is the State when the read of an observation begins. A restore that was not known then, or was not stored
// for other processes, may be younger than what is read: reports in it do not count as written since.
func (s State) BeginRead() State {
	s.readID = ""
	if s.stored.err == nil && (!s.stored.isRead || s.stored.id == s.last.ID) {
		s.readID, s.stored.sent = s.last.ID, s.last.ID
	}
	return s
}

// isReadSince reports whether the read of the last observation began when the last restore was known and stored.
func (s State) isReadSince() bool { return s.readID == s.last.ID }

// Observe is the State before an observation is judged. restored is what shows that etcd was restored since earlier
// observations, "" for nothing.
func (s State) Observe(o *facts.Observation) (next State, restored string) {
	s, restored = s.Detect(o)
	s = s.withNonces(o)
	if !o.Watched && s.isReadSince() { // otherwise Nodes and Leases may be from before
		s.last = s.last.withTaints(o).withSince(o).withRegistered(o)
	}
	return s, restored
}

// Settle is the State after an observation was judged in a pass.
func (s State) Settle(j *judge.Judgement) State {
	o := j.Observation
	s.hasPassed = s.hasPassed || o.Restored == "" && o.Reports.IsKnown()
	s.sawReports = s.sawReports || len(o.Reports.Or(nil)) > 0
	s.knownNodes = s.nodesAfter(j)
	s.last = s.withoutAcknowledged(j)
	return s.withAwaited(j)
}

// missingFor is for how long a missing node stays known.
const missingFor = 10 * time.Minute

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
		if now.Sub(since) <= missingFor {
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

// begin starts to wait for reports of all nodes, with an ID that replaces the last one. An ID that was not sent yet
// serves for what shows meanwhile. One that was sent does not: another process may wait for reports since by it. The
// restore may have lost each known node, and each that an earlier restore lost. Earlier passes confirm nothing.
func (s State) begin(why string, now time.Time, isAgain bool) State {
	next := last{ID: s.last.ID, Replaces: s.last.Replaces, Why: s.last.Why, IsAgain: s.last.IsAgain && isAgain}
	if s.last.ID == "" || s.last.ID == s.stored.sent || s.last.ID == s.stored.id {
		next = last{ID: s.newID(), Replaces: s.last.ID, IsAgain: isAgain}
	}
	if next.Why == "" || !strings.HasPrefix(why, reportedByAgent) {
		next.Why = why
	}
	next.At, next.Nonces, next.AnswersAll, next.DoubtsAll = now, s.last.Nonces, s.last.AnswersAll, true
	next.Unregistered = s.last.Unregistered
	lost := s.last.lostNodes()
	for name := range s.knownNodes {
		lost = append(lost, name)
	}
	s.last, s.readID = next.withLost(lost), ""
	s.number++
	return s
}

func (s State) newID() string {
	if s.IDs != nil {
		return s.IDs(s.number + 1)
	}
	return strings.ToLower(rand.Text()[:10])
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

// recentFor is for how long a restore allows more repairs.
const recentFor = 24 * time.Hour

// IsRecent reports whether etcd was restored within a day. This process must have detected it, or the agents of most
// nodes have noted it: a single agent is not enough.
func (s State) IsRecent(j *judge.Judgement) bool {
	now, reporters := j.Observation.Now, 0
	for _, report := range j.Observation.Reports.Or(nil) {
		if a := s.last.Nonces[report.Name]; a.Nonce != "" && now.Sub(a.At) <= recentFor {
			reporters++
		}
	}
	return 2*reporters > len(j.Nodes) ||
		now.Sub(s.passDetectedAt) <= recentFor && !strings.Contains(s.last.Why, reportedByAgent)
}
