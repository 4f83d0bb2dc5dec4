package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// One agent can pause releases, but not make processes begin one ID after the other, and raise one fence.
const (
	maxBegun    = 3                // how many IDs the nonces of one node begin at most in begunPeriod
	begunPeriod = 10 * time.Minute // within which a further nonce of the node raises no fence
)

// answer is a nonce that an ID answers, and when it was first known. It is text in JSON.
type answer struct {
	Nonce string
	At    time.Time
}

const hourLayout = "2006-01-02T15"

// MarshalText implements encoding.TextMarshaler. The text is short: there may be thousands.
func (a answer) MarshalText() ([]byte, error) {
	return []byte(a.At.UTC().Format(hourLayout) + " " + a.Nonce), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. The nonce of a text without a time is known, and not young.
func (a *answer) UnmarshalText(text []byte) error {
	at, nonce, _ := strings.Cut(string(text), " ")
	a.Nonce = nonce
	a.At, _ = time.Parse(hourLayout, at)
	return nil
}

// withNonces answers what agents have noted: an agent that sees its report or Lease run backwards draws a nonce. Each
// nonce that no ID has answered begins an ID, however many restores the agent has seen since. Nonces of an observation
// are answered together. A node whose nonces have begun too many IDs lately must wait, and releases with it.
func (s State) withNonces(o *facts.Observation) State {
	s.unanswered = nil
	if !o.Reports.IsKnown() || o.Static && o.RestoreState == "" { // a snapshot may lack what was answered
		return s
	}
	if s.last.AnswersAll {
		s.last.Nonces, s.last.AnswersAll = s.answers(o), false
	}
	var unknown []string
	mayWait := map[string]bool{}
	for _, r := range o.Reports.Or(nil) {
		if nonce := s.nonceOf(o, r); nonce == "" || s.last.Nonces[r.Name].Nonce == nonce {
			continue
		}
		if unknown = append(unknown, r.Name); len(s.lately(r.Name, o.Now)) >= maxBegun {
			mayWait[r.Name] = true
		}
	}
	if len(unknown) == 0 {
		return s
	}
	if slices.Sort(unknown); len(mayWait) == len(unknown) && !s.isUnsent() {
		s.unanswered = unknown
		return s
	}
	return s.answer(o, unknown)
}

// answer begins an ID that answers all nonces of an observation, those of the given nodes for the first time.
func (s State) answer(o *facts.Observation, unknown []string) State {
	isAgain := true
	for _, name := range unknown {
		_, isPending := s.last.Pending[name]
		isAwaited := s.last.ID != "" && !s.last.IsSettled && (isPending || !s.last.HasAsked)
		isAgain = isAgain && (isAwaited || len(s.lately(name, o.Now)) > 0)
	}
	next := s.begin(reportedByAgent+unknown[0], o.Now, isAgain)
	if next.last.ID != s.last.ID {
		next.begun = maps.Clone(s.begun)
		if next.begun == nil {
			next.begun = map[string][]time.Time{}
		}
		for _, name := range unknown {
			next.begun[name] = append(s.lately(name, o.Now), o.Now)
		}
	}
	next.last.Nonces = s.answers(o)
	return next
}

// isUnsent reports whether the last ID was begun and is yet to be sent to the store.
func (s State) isUnsent() bool {
	return s.last.ID != "" && s.last.ID != s.stored.sent && s.last.ID != s.stored.id
}

// lately returns when nonces of a node have begun IDs within begunPeriod.
func (s State) lately(node string, now time.Time) (times []time.Time) {
	for _, at := range s.begun[node] {
		if now.Sub(at) < begunPeriod {
			times = append(times, at)
		}
	}
	return times
}

// answers are the nonces of an observation, each with the time when it was first known. Those of Leases that are gone
// are forgotten: one that returns is answered again.
func (s State) answers(o *facts.Observation) map[string]answer {
	all := map[string]answer{}
	for _, report := range o.Reports.Or(nil) {
		nonce := s.nonceOf(o, report)
		if nonce == "" {
			continue
		}
		a := s.last.Nonces[report.Name]
		if a.Nonce != nonce {
			a = answer{nonce, o.Now}
		}
		all[report.Name] = a
	}
	return all
}

// nonceOf is the nonce of a node's agent. Caches that lag behind have an earlier one than a quorum read has had, which
// shows nothing.
func (s State) nonceOf(o *facts.Observation, report *podstate.Report) string {
	if o.Watched && isNewer(s.versions[facts.LeaseObject+report.Name], report.LeaseVersion) {
		return s.last.Nonces[report.Name].Nonce
	}
	return report.RestoreNonce
}

// waitingText says that nonces wait, and why; "" if none does.
func (s State) waitingText(now time.Time) string {
	if len(s.unanswered) == 0 {
		return ""
	}
	name := s.unanswered[0]
	return fmt.Sprintf("the agent on node %s has noted restores of etcd again and again; releases are paused, and the "+
		"nodes' reports since the last one are read from %s on",
		name, s.lately(name, now)[0].Add(begunPeriod).UTC().Format(time.RFC3339))
}

// reportsByName are the reports of an observation, by node.
func reportsByName(o *facts.Observation) map[string]*podstate.Report {
	reports := make(map[string]*podstate.Report, len(o.Reports.Or(nil)))
	for _, r := range o.Reports.Or(nil) {
		reports[r.Name] = r
	}
	return reports
}
