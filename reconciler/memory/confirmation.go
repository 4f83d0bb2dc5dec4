package memory

import (
	"math"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// NodeQuarantine is how long a Node object must be missing before that counts, whatever --confirm-after says
// (Kubernetes v1.36, pkg/controller/podgc/gc_controller.go, quarantineTime).
const NodeQuarantine = 40 * time.Second

// confirmation is since when a verdict stands.
type confirmation struct {
	since
	withoutReport []string // the nodes without a fresh report for which the item was undetermined
}

type since struct {
	staleSince          moment    // Stale in every pass since
	uncontradictedSince moment    // no pass since contradicts it; missing information does not contradict
	nodeMissingSince    moment    // Stale since because its Node is missing
	provenSince         time.Time // Stale and proven in every pass since, by this process's clock
}

// moment is a time by the API server's clock and by this process's own, as two API servers may differ; zero for none.
type moment struct{ at, local time.Time }

// orNow returns m, or the time of an observation where m is none.
func (m moment) orNow(o *facts.Observation) moment {
	if m.at.IsZero() {
		return moment{o.Now, o.Local}
	}
	return m
}

// deadline is when d has passed since m by both clocks.
func (m moment) deadline(d time.Duration, o *facts.Observation) time.Time {
	at := m.at.Add(d)
	if m.local.IsZero() {
		return at
	}
	return later(at, o.Now.Add(d-o.Local.Sub(m.local))) // by this process's clock, expressed in o.Now's
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// next is the confirmation after an item was judged again; nil where that contradicts it.
func (c *confirmation) next(it *judge.Item, o *facts.Observation) *confirmation {
	if it.Verdict != judge.Stale && !it.IsUndetermined() {
		return nil
	}
	next := confirmation{}
	if c != nil {
		next.since = c.since
	}
	next.uncontradictedSince = next.uncontradictedSince.orNow(o)
	if it.Reservation != nil && len(it.Related()) > 0 { // an allocation needs it
		next.uncontradictedSince = moment{}
	}
	e := it.Evidence()
	if it.Verdict != judge.Stale && e != nil {
		next.withoutReport = e.WithoutReport
	}
	switch {
	case it.Verdict != judge.Stale:
		next.staleSince, next.nodeMissingSince = moment{}, moment{}
	case e == nil || !e.MissingNode:
		next.staleSince, next.nodeMissingSince = next.staleSince.orNow(o), moment{}
	default:
		next.staleSince, next.nodeMissingSince = next.staleSince.orNow(o), next.nodeMissingSince.orNow(o)
	}
	switch {
	case it.Verdict != judge.Stale || !it.Proven:
		next.provenSince = time.Time{}
	case next.provenSince.IsZero():
		next.provenSince = o.Local
	}
	if c != nil && next.since == c.since && slices.Equal(next.withoutReport, c.withoutReport) {
		return c
	}
	return clone(next)
}

// without is the confirmation after the second check judged an item otherwise; nil where that contradicts it.
func (c *confirmation) without(it *judge.Item) *confirmation {
	if c == nil || !it.IsUndetermined() {
		return nil
	}
	return &confirmation{since: since{uncontradictedSince: c.uncontradictedSince}, withoutReport: c.withoutReport}
}

// StandsFor is for how long an item has been proven, or else Stale, by this process's clock; ok is false if unknown.
func (m Memory) StandsFor(it *judge.Item, now time.Time) (d time.Duration, ok bool) {
	c := m.item(it.ID()).confirmation
	if c == nil {
		return 0, false
	}
	since := c.staleSince.local
	if it.Proven {
		since = c.provenSince
	}
	return now.Sub(since), !since.IsZero()
}

// ConfirmedAt is when an unconfirmed verdict may be acted upon: once every pass for confirmAfter agreed, or longer
// while the pod may be within its grace period. A sandbox precedes its allocation, so a sandbox counts as absent from
// all nodes since the allocation is known. A pass that could not inspect each node does not interrupt that.
func (m Memory) ConfirmedAt(it *judge.Item, o *facts.Observation, confirmAfter time.Duration) time.Time {
	s, e := m.item(it.ID()), it.Evidence()
	var since, missing moment
	if c := s.confirmation; c != nil {
		since, missing = c.staleSince, c.nodeMissingSince
		if e != nil && (e.Sandbox == judge.Absent || e.Sandbox == judge.NodeMissing && e.OnlyOthersMissing) {
			since = c.uncontradictedSince
		}
	}
	if since.at.IsZero() {
		s, since, missing = item{}, since.orNow(o), moment{}
	}
	switch {
	case e == nil || e.Phase != podstate.Pending:
	case e.Sandbox == judge.Absent:
		confirmAfter = max(confirmAfter, facts.MinAbsenceWhilePending)
	case e.AgentMayNotKnow && !e.Unproven: // otherwise it is proven
		confirmAfter = facts.MinAbsenceWhilePending
	}
	if s.past != nil && s.past.longestGrace > confirmAfter {
		confirmAfter = s.past.longestGrace + min(time.Minute, math.MaxInt64-s.past.longestGrace)
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
	return later(at, missing.orNow(o).deadline(NodeQuarantine, o))
}
