package reconciler

import (
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// History is what the passes of one process saw. It is empty after a start, which makes releases slower and never
// wrong. It keeps nothing of candidates that are no longer there.
type History struct {
	candidates      map[judge.ID]seen
	passes          uint32                // counts the passes
	reports         bool                  // a SandboxReport was seen
	revision        uint64                // etcd's revision in the last pass
	versions        map[objectName]string // the resourceVersions that were read by quorum, or written, last
	released        window                // as it was amended last
	windowForbidden bool                  // there is no right to a window that others find
	restore         restore
	storedRestore   storedRestore
	last            time.Time // the last pass that showed no restore of etcd
	oldest          time.Time // since when the first of the candidates is Stale
	repairs         map[string]time.Time
	repaired        map[judge.NodePool]window // entries written by --repair
}

type seen struct {
	first        time.Time     // when it was seen first
	confirmation *confirmation // nil where something contradicted it in the last pass
	ranOn        []string      // nodes of pods that were seen by the owner's name
	carriedOn    []string      // nodes of pods of other names that were seen carrying the address
	pod          string        // UID of the pod that was last seen by the owner's name
	grace        time.Duration // of that pod
	deleted      time.Duration // the longest grace period of a pod that was deleted
	pass         uint32        // the last pass that saw it
}

// confirmation is since when a verdict is as it is.
type confirmation struct {
	stale          moment    // since when judged Stale in every pass
	uncontradicted moment    // since when nothing says otherwise: that something is not known does not
	missing        moment    // since when Stale because its Node is gone
	proven         time.Time // since when Stale and proven in every pass, by this process' own clock
}

// moment is a time by the API server's clock, and by this process' own: one server's may
// be another than the next one's. The zero moment is none.
type moment struct{ at, local time.Time }

// orNow is the time of an observation where there is none yet.
func (m moment) orNow(o *judge.Observation) moment {
	if m.at.IsZero() {
		return moment{o.Now, o.Local}
	}
	return m
}

// after is when d will have passed since, by both clocks.
func (m moment) after(d time.Duration, o *judge.Observation) time.Time {
	return later(m.at.Add(d), lapsed(o, m.local, d))
}

// NewHistory is the memory of a process that has just started.
func NewHistory() *History {
	return &History{candidates: map[judge.ID]seen{}}
}

// SawReports reports whether a SandboxReport was there at any observation.
func (h *History) SawReports() bool { return h.reports }

// Of is what is known of an allocation or a reservation.
func (h *History) Of(id judge.ID) judge.ItemHistory {
	s := h.candidates[id]
	known := judge.ItemHistory{First: s.first, RanOn: s.ranOn, CarriedOn: s.carriedOn}
	if s.confirmation != nil {
		known.StaleSince, known.UncontradictedSince = s.confirmation.stale.at, s.confirmation.uncontradicted.at
	}
	return known
}

// Remember takes in a full pass.
func (h *History) Remember(j *judge.Judgement) {
	if j.Observation.Restored == "" {
		h.last = j.Observation.Now
	}
	h.passes++
	h.noteNodes(j)
	h.noteItems(j)
	h.noteAwaited(j)
	h.forgetRepairs(j.Observation.Now)
	h.oldest = time.Time{}
	maps.DeleteFunc(h.candidates, func(_ judge.ID, s seen) bool {
		if c := s.confirmation; s.pass == h.passes && c != nil {
			h.oldest = EarliestNonZero(h.oldest, c.stale.at)
		}
		return s.pass != h.passes
	})
}

// noteItems takes in what a judgement says of its items.
func (h *History) noteItems(j *judge.Judgement) {
	h.reports = h.reports || len(j.Observation.Reports) > 0
	h.noteRestores(j.Observation)
	for _, items := range [][]*judge.Item{j.Allocations, j.Reservations} {
		for _, it := range items {
			h.note(it, j.Observation)
		}
	}
}

func (h *History) note(it *judge.Item, o *judge.Observation) {
	s, known := h.candidates[it.ID()]
	if !known {
		s.first = o.Now
	}
	s.pass = h.passes
	s.confirmation = s.confirmation.next(it, o)
	s.carriedOn = withNode(s.carriedOn, it.ClaimedOn())
	if owner := it.Owner(); owner.UID == "" {
		pod := it.PodByOwnerName()
		if pod != nil {
			s.ranOn = withNode(s.ranOn, pod.Node)
		}
		s.notePod(pod)
	}
	h.candidates[it.ID()] = s
}

// next is what is known after an item was judged again, nil where that contradicts it.
func (c *confirmation) next(it *judge.Item, o *judge.Observation) *confirmation {
	if it.Verdict != judge.Stale && !it.IsUndetermined() {
		return nil
	}
	if c == nil {
		c = &confirmation{}
	}
	c.uncontradicted = c.uncontradicted.orNow(o)
	if it.Reservation != nil && len(it.Related()) > 0 { // an entry needs it
		c.uncontradicted = moment{}
	}
	e := it.Evidence()
	switch {
	case it.Verdict != judge.Stale:
		c.stale, c.missing = moment{}, moment{}
	case e == nil || !e.MissingNode:
		c.stale, c.missing = c.stale.orNow(o), moment{}
	default:
		c.stale, c.missing = c.stale.orNow(o), c.missing.orNow(o)
	}
	switch {
	case it.Verdict != judge.Stale || !it.Proven:
		c.proven = time.Time{}
	case c.proven.IsZero():
		c.proven = o.Local
	}
	return c
}

// delayOf is for how long an item was proven, or else Stale, until now by this process' own clock; not ok
// where that is not known.
func (h *History) delayOf(it *judge.Item, now time.Time) (d Delay, ok bool) {
	c := h.candidates[it.ID()].confirmation
	if c == nil {
		return Delay{}, false
	}
	since := c.stale.local
	if it.Proven {
		since = c.proven
	}
	return Delay{Proven: it.Proven, After: now.Sub(since)}, !since.IsZero()
}

// withNode is a list of nodes with one more, "" for none.
func withNode(nodes []string, node string) []string {
	if node == "" || slices.Contains(nodes, node) {
		return nodes
	}
	return append(nodes, node)
}

// notePod remembers for how long a pod that was deleted may still be running: a
// pod that is not there any more was deleted, with the grace period that it had.
func (s *seen) notePod(pod *podstate.Pod) {
	if s.pod != "" && (pod == nil || pod.UID != s.pod) {
		s.deleted = max(s.deleted, s.grace)
		s.pod = ""
	}
	if pod != nil {
		s.pod, s.grace = pod.UID, pod.GracePeriod
		if !pod.DeletionTime.IsZero() {
			s.deleted = max(s.deleted, pod.GracePeriod)
		}
	}
}

// contradicted makes an unconfirmed verdict be confirmed from now on: what was judged since does not bear it out.
func (h *History) contradicted(was, now *judge.Item) {
	if c := h.candidates[was.ID()].confirmation; c != nil && now.IsUndetermined() {
		c.stale, c.missing, c.proven = moment{}, moment{}, time.Time{}
	} else {
		c.reset()
	}
}

func (c *confirmation) reset() {
	if c != nil {
		*c = confirmation{}
	}
}

// quarantine is how long a Node object must have been gone before that counts, whatever --confirm-after says
// (Kubernetes v1.36, pkg/controller/podgc/gc_controller.go, quarantineTime).
const quarantine = 40 * time.Second

// confirmedAt is when an unconfirmed verdict may be acted upon: when it has held at every pass for confirmAfter, or for
// longer where the pod may still be within its grace period. A sandbox is made before its entry: so that no node has it
// now counts from when the entry was known, whether or not each node was known at every pass.
func (h *History) confirmedAt(it *judge.Item, o *judge.Observation, confirmAfter time.Duration) time.Time {
	s, e := h.candidates[it.ID()], it.Evidence()
	var since, missing moment
	if c := s.confirmation; c != nil {
		since, missing = c.stale, c.missing
		if e != nil && e.Sandbox == judge.Absent {
			since = c.uncontradicted
		}
	}
	if since.at.IsZero() {
		s, since, missing = seen{}, since.orNow(o), moment{}
	}
	switch {
	case e == nil || e.Phase != podstate.Pending:
	case e.Sandbox == judge.Absent:
		confirmAfter = max(confirmAfter, judge.MinAbsenceWhilePending)
	case e.AgentMayNotKnow && !e.Unproven: // then it is proven
		confirmAfter = judge.MinAbsenceWhilePending
	}
	if s.deleted > confirmAfter {
		confirmAfter = s.deleted + time.Minute
	}
	at := since.after(confirmAfter, o)
	if it.Reason == judge.NodeMissingReason {
		if renewed := it.LastRenewed(); !renewed.IsZero() && renewed.Before(since.at) {
			at = renewed.Add(confirmAfter)
		}
	}
	if e == nil || !e.MissingNode {
		return at
	}
	return later(at, missing.orNow(o).after(quarantine, o))
}

// lapsed is when d will have passed since a time by this process' own clock: o.Now may
// be by another API server's than in the pass before. Zero where there is no such clock.
func lapsed(o *judge.Observation, since time.Time, d time.Duration) time.Time {
	if since.IsZero() {
		return time.Time{}
	}
	return o.Now.Add(d - o.Local.Sub(since))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
