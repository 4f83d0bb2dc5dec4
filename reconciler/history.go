package reconciler

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// History is what the passes of one process have observed. It is empty after a start, which makes releases slower and
// never wrong. Items that no longer exist are forgotten.
type History struct {
	candidates       map[candidateKey]candidate
	seeds            [2]maphash.Seed   // of the candidates' keys
	passes           uint32            // number of passes
	hasReports       bool              // a pass has read a SandboxReport
	revision         uint64            // etcd's revision in the last pass
	versions         map[string]string // resourceVersions last read by quorum, or written, by kind and name
	releases         window            // what the breaker counted last
	isStoreForbidden bool              // RBAC forbids the BreakerStore
	restore          restore
	storedRestore    storedRestore
	lastCleanPass    time.Time            // the last pass that did not detect a restore of etcd
	oldestStale      time.Time            // since when the oldest of the candidates is Stale
	repairs          map[string]time.Time // when each waiting finding was found first, by RepairKey
	repairCounts     map[judge.NodePool]window
	pauses           map[string]string // the pauses of the last pass in words, by pool
	nodes            nodeHistory
	unknown          map[judge.SourceName]bool // the sources that were unknown in the last pass
}

// candidateKey is the hash of a judge.ID. Two of 250,000 items share one less often than memory fails.
type candidateKey [2]uint64

func (h *History) keyOf(id judge.ID) candidateKey {
	return candidateKey{maphash.Comparable(h.seeds[0], id), maphash.Comparable(h.seeds[1], id)}
}

// candidate is what is known of one allocation or reservation.
type candidate struct {
	first        time.Time
	confirmation *confirmation // nil where the last pass contradicted it
	pod          *podstate.Pod // with the owner's name in the last pass; nil for none
	past         *podPast      // nil for most
	pass         uint32        // the last pass that had it
}

// podPast is what is known of earlier pods, and of others that carried the address.
type podPast struct {
	ranOn        []string      // nodes of earlier pods with the owner's name
	carriedOn    []string      // nodes of other pods that carried the address
	hasNameAlone bool          // no other pod has, or had, the name of the owner: it has one node in ranOn
	longestGrace time.Duration // longest grace period of any pod with the owner's name that was deleted
}

// confirmation is since when a verdict stands.
type confirmation struct {
	staleSince          moment    // Stale in every pass since
	uncontradictedSince moment    // no pass since contradicts it; missing information does not contradict
	nodeMissingSince    moment    // Stale since because its Node is missing
	withoutReport       []string  // the nodes without a fresh report for which the item was undetermined
	provenSince         time.Time // Stale and proven in every pass since, by this process's clock
}

// moment is a time by the API server's clock and by this process's own, as two API servers may differ; zero for none.
type moment struct{ at, local time.Time }

// orNow returns m, or the time of an observation where m is none.
func (m moment) orNow(o *judge.Observation) moment {
	if m.at.IsZero() {
		return moment{o.Now, o.Local}
	}
	return m
}

// deadline is when d has passed since m by both clocks.
func (m moment) deadline(d time.Duration, o *judge.Observation) time.Time {
	return maxTime(m.at.Add(d), localDeadline(o, m.local, d))
}

// NewHistory returns the History of a process that has just started.
func NewHistory() *History {
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	return &History{candidates: map[candidateKey]candidate{}, seeds: seeds}
}

// Copy returns what judging reads of the History, which later passes do not change.
func (h *History) Copy() *History {
	c := *h
	c.restore.Taints = maps.Clone(h.restore.Taints)
	c.candidates = make(map[candidateKey]candidate, len(h.candidates))
	for key, s := range h.candidates {
		if s.confirmation != nil {
			s.confirmation = ptr.To(*s.confirmation)
		}
		if s.past != nil {
			s.past = ptr.To(*s.past)
		}
		c.candidates[key] = s
	}
	return &c
}

// noteUnknown starts the wait of every unconfirmed item again when a source becomes unknown: what was held for lack of
// evidence has not waited.
func (h *History) noteUnknown(o *judge.Observation) {
	unknown := map[judge.SourceName]bool{}
	isNew := false
	for _, s := range o.UnknownSources() {
		unknown[s.Name] = true
		isNew = isNew || !h.unknown[s.Name]
	}
	if h.unknown = unknown; isNew {
		h.resetConfirmations()
	}
}

// Expected returns the nodes that had to report in earlier passes, each with the time at which it joined.
func (h *History) Expected() map[string]time.Time { return h.nodes.expected() }

// SawReports reports whether any pass has read a SandboxReport.
func (h *History) SawReports() bool { return h.hasReports }

// Of returns what is known of an allocation or a reservation.
func (h *History) Of(id judge.ID) judge.ItemHistory {
	s := h.candidates[h.keyOf(id)]
	past := cmp.Or(s.past, &podPast{})
	known := judge.ItemHistory{First: s.first, RanOn: past.ranOn, CarriedOn: past.carriedOn}
	known.RanOnlyThere = past.hasNameAlone
	if s.pod != nil {
		known.RanOn = withNode(slices.Clip(past.ranOn), s.pod.Node)
		known.RanOnlyThere = s.pod.HasUniqueName && len(known.RanOn) == 1
	}
	if s.confirmation != nil {
		known.StaleSince, known.UncontradictedSince = s.confirmation.staleSince.at, s.confirmation.uncontradictedSince.at
	}
	return known
}

// Remember records a full pass.
func (h *History) Remember(j *judge.Judgement) {
	if j.Observation.Restored == "" {
		h.lastCleanPass = j.Observation.Now
	}
	h.passes++
	h.noteNodes(j)
	h.noteUnknown(j.Observation)
	h.nodes.note(j)
	h.hasReports = h.hasReports || len(j.Observation.Reports.Or(nil)) > 0
	h.noteRestores(j.Observation)
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		h.note(it, j.Observation)
	}
	h.notePendingNodes(j)
	h.forgetRepairs(j.Observation.Now)
	h.oldestStale = time.Time{}
	maps.DeleteFunc(h.candidates, func(_ candidateKey, s candidate) bool {
		if c := s.confirmation; s.pass == h.passes && c != nil {
			h.oldestStale = EarliestNonZero(h.oldestStale, c.staleSince.at)
		}
		return s.pass != h.passes
	})
}

func (h *History) note(it *judge.Item, o *judge.Observation) {
	key := h.keyOf(it.ID())
	s, known := h.candidates[key]
	if !known {
		s.first = o.Now
	}
	s.pass = h.passes
	if c := s.confirmation; c != nil && h.nodes.hasLost(c.withoutReport, s.first) {
		c.reset()
	}
	s.confirmation = s.confirmation.next(it, o)
	if node := it.ClaimedOn(); node != "" {
		s.past = s.past.with("", node, 0)
	}
	if it.Owner().UID == "" {
		s.notePod(it.PodByOwnerName())
	}
	h.candidates[key] = s
}

// next is the confirmation after an item was judged again; nil where that contradicts it.
func (c *confirmation) next(it *judge.Item, o *judge.Observation) *confirmation {
	if it.Verdict != judge.Stale && !it.IsUndetermined() {
		return nil
	}
	if c == nil {
		c = &confirmation{}
	}
	c.uncontradictedSince = c.uncontradictedSince.orNow(o)
	if it.Reservation != nil && len(it.Related()) > 0 { // an allocation needs it
		c.uncontradictedSince = moment{}
	}
	e := it.Evidence()
	c.withoutReport = nil
	if it.Verdict != judge.Stale && e != nil {
		c.withoutReport = e.WithoutReport
	}
	switch {
	case it.Verdict != judge.Stale:
		c.staleSince, c.nodeMissingSince = moment{}, moment{}
	case e == nil || !e.MissingNode:
		c.staleSince, c.nodeMissingSince = c.staleSince.orNow(o), moment{}
	default:
		c.staleSince, c.nodeMissingSince = c.staleSince.orNow(o), c.nodeMissingSince.orNow(o)
	}
	switch {
	case it.Verdict != judge.Stale || !it.Proven:
		c.provenSince = time.Time{}
	case c.provenSince.IsZero():
		c.provenSince = o.Local
	}
	return c
}

// delayOf is for how long an item has been proven, or else Stale, by this process's clock; ok is false if unknown.
func (h *History) delayOf(it *judge.Item, now time.Time) (d Delay, ok bool) {
	c := h.candidates[h.keyOf(it.ID())].confirmation
	if c == nil {
		return Delay{}, false
	}
	since := c.staleSince.local
	if it.Proven {
		since = c.provenSince
	}
	return Delay{Proven: it.Proven, After: now.Sub(since)}, !since.IsZero()
}

// withNode appends a node to a list that does not have it; "" is none.
func withNode(nodes []string, node string) []string {
	if node == "" || slices.Contains(nodes, node) {
		return nodes
	}
	return append(nodes, node)
}

// notePod records the pod by the owner's name, and of the one before the node and for how long it may still run.
func (s *candidate) notePod(pod *podstate.Pod) {
	was := s.pod
	if was != nil && (pod == nil || pod.Node != was.Node) {
		s.past = s.past.with(was.Node, "", 0)
	}
	if was != nil && pod == nil {
		s.past = s.past.with("", "", 0)
		s.past.hasNameAlone = was.HasUniqueName && len(s.past.ranOn) == 1
	}
	if was != nil && was.UID != "" && (pod == nil || pod.UID != was.UID) {
		s.past = s.past.with("", "", was.GracePeriod)
	}
	if s.pod = pod; pod != nil && !pod.DeletionTime.IsZero() {
		s.past = s.past.with("", "", pod.GracePeriod)
	}
}

// with adds nodes and a grace period; "" and 0 are none.
func (p *podPast) with(ranOn, carriedOn string, grace time.Duration) *podPast {
	p = cmp.Or(p, &podPast{})
	p.ranOn, p.carriedOn = withNode(p.ranOn, ranOn), withNode(p.carriedOn, carriedOn)
	p.longestGrace = max(p.longestGrace, grace)
	return p
}

// resetConfirmation starts the wait for confirmation again, since the second check judged otherwise.
func (h *History) resetConfirmation(was, now *judge.Item) {
	if c := h.candidates[h.keyOf(was.ID())].confirmation; c != nil && now.IsUndetermined() {
		c.staleSince, c.nodeMissingSince, c.provenSince = moment{}, moment{}, time.Time{}
	} else {
		c.reset()
	}
}

func (c *confirmation) reset() {
	if c != nil {
		*c = confirmation{}
	}
}

// NodeQuarantine is how long a Node object must be missing before that counts, whatever --confirm-after says
// (Kubernetes v1.36, pkg/controller/podgc/gc_controller.go, quarantineTime).
const NodeQuarantine = 40 * time.Second

// confirmedAt is when an unconfirmed verdict may be acted upon: once every pass for confirmAfter agreed, or longer
// while the pod may be within its grace period. A sandbox precedes its allocation, so a sandbox counts as absent from
// all nodes since the allocation is known. A pass that could not inspect each node does not interrupt that.
func (h *History) confirmedAt(it *judge.Item, o *judge.Observation, confirmAfter time.Duration) time.Time {
	s, e := h.candidates[h.keyOf(it.ID())], it.Evidence()
	var since, missing moment
	if c := s.confirmation; c != nil {
		since, missing = c.staleSince, c.nodeMissingSince
		if e != nil && (e.Sandbox == judge.Absent || e.Sandbox == judge.NodeMissing && e.OnlyOthersMissing) {
			since = c.uncontradictedSince
		}
	}
	if since.at.IsZero() {
		s, since, missing = candidate{}, since.orNow(o), moment{}
	}
	switch {
	case e == nil || e.Phase != podstate.Pending:
	case e.Sandbox == judge.Absent:
		confirmAfter = max(confirmAfter, judge.MinAbsenceWhilePending)
	case e.AgentMayNotKnow && !e.Unproven: // otherwise it is proven
		confirmAfter = judge.MinAbsenceWhilePending
	}
	if s.past != nil && s.past.longestGrace > confirmAfter {
		confirmAfter = s.past.longestGrace + time.Minute
	}
	at := since.deadline(confirmAfter, o)
	if it.Reason == judge.NodeMissingReason {
		if renewed := it.LastRenewed(); !renewed.IsZero() && renewed.Before(since.at) {
			at = renewed.Add(confirmAfter)
		}
	}
	if e == nil || !e.MissingNode {
		return at
	}
	return maxTime(at, missing.orNow(o).deadline(NodeQuarantine, o))
}

// localDeadline is when d has passed since a time by this process's clock, expressed in o.Now's clock; zero for none.
func localDeadline(o *judge.Observation, since time.Time, d time.Duration) time.Time {
	if since.IsZero() {
		return time.Time{}
	}
	return o.Now.Add(d - o.Local.Sub(since))
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
