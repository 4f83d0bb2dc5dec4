package reconciler

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// History is what the passes of one process saw. It is empty after a start,
// which makes releases slower and never wrong. It keeps nothing of candidates
// that are no longer there.
type History struct {
	seeds            [2]maphash.Seed
	buffer           []byte
	candidates       map[candidateKey]seen
	passes           uint32                // counts the passes
	reports          bool                  // a SandboxReport was seen
	revision         uint64                // etcd's revision in the last pass
	versions         map[objectName]string // the resourceVersions that were read by quorum, or written, last
	released         window                // as it was amended last
	windowForbidden  bool                  // there is no right to a window that others find
	refusedByBreaker int                   // unconfirmed releases that the breaker refused at the last full pass
	restore          restore
	storedRestore    storedRestore
	last             time.Time // the last pass that showed no restore of etcd
	repairs          map[string]time.Time
	repaired         map[judge.NodePool]window // entries written by --repair
}

// candidateKey is a hash of an ID: of a hundred thousand entries the names would be
// most of what is remembered. No two IDs share 128 bits.
type candidateKey [2]uint64

type seen struct {
	first        int64         // when it was seen first, in nanoseconds
	confirmation *confirmation // nil where it was not Stale in the last pass
	node         string        // of the pod that was last seen by the owner's name
	others       []string      // nodes of other pods that were seen by that name
	carried      []string      // nodes of pods of other names that were seen carrying the address
	pod          string        // UID of the pod that was last seen by the owner's name
	grace        time.Duration // of that pod
	deleted      time.Duration // the longest grace period of a pod that was deleted
	pass         uint32        // the last pass that saw it
}

// confirmation is since when a verdict is as it is.
type confirmation struct {
	stale        time.Time // since when judged Stale in every pass; zero after what contradicted it
	local        time.Time // the same by this process' own clock
	missing      time.Time // since when so because its Node is gone
	missingLocal time.Time // the same by this process' own clock
}

// NewHistory is the memory of a process that has just started.
func NewHistory() *History {
	return &History{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, candidates: map[candidateKey]seen{}}
}

// key is the hash of an ID, made of its fields.
func (h *History) key(object [2]string, fields ...string) candidateKey {
	b := h.buffer[:0]
	for _, text := range object {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	for _, text := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	h.buffer = b
	return candidateKey{maphash.Bytes(h.seeds[0], b), maphash.Bytes(h.seeds[1], b)}
}

func (h *History) keyOf(it *judge.Item) candidateKey {
	if it.Allocation != nil {
		return h.allocationKey(it.Pool, it.Allocation)
	}
	return h.reservationKey(it.Reservation)
}

func (h *History) allocationKey(p *ippool.Pool, a *ippool.Allocation) candidateKey {
	return h.key([2]string{p.Namespace, p.Name}, "", a.Key, a.ContainerID, a.PodRef, a.IfName)
}

func (h *History) reservationKey(r *ippool.Reservation) candidateKey {
	return h.key([2]string{r.Namespace, r.Name}, r.UID, r.PodRef, r.IfName)
}

// SawReports reports whether a SandboxReport was there at any observation.
func (h *History) SawReports() bool { return h.reports }

// OfAllocation is what is known of an allocation.
func (h *History) OfAllocation(p *ippool.Pool, a *ippool.Allocation) judge.Seen {
	if len(h.candidates) == 0 {
		return judge.Seen{}
	}
	return h.candidates[h.allocationKey(p, a)].seen()
}

// OfReservation is what is known of a reservation.
func (h *History) OfReservation(r *ippool.Reservation) judge.Seen {
	if len(h.candidates) == 0 {
		return judge.Seen{}
	}
	return h.candidates[h.reservationKey(r)].seen()
}

// seen is the memory of a candidate as judging reads it.
func (s seen) seen() judge.Seen {
	known := judge.Seen{Node: s.node, OtherNodes: s.others, CarriedOn: s.carried}
	if s.first != 0 {
		known.First = time.Unix(0, s.first)
	}
	if s.confirmation != nil {
		known.StaleSince = s.confirmation.stale
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
	maps.DeleteFunc(h.candidates, func(_ candidateKey, s seen) bool { return s.pass != h.passes })
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
	k := h.keyOf(it)
	s, known := h.candidates[k]
	if !known {
		s.first = o.Now.UnixNano()
	}
	s.pass = h.passes
	switch {
	case it.Verdict != judge.Stale:
		s.confirmation = nil
	case s.confirmation == nil:
		s.confirmation = &confirmation{}
		fallthrough
	default:
		s.confirmation.stale = since(s.confirmation.stale, true, o.Now)
		s.confirmation.local = since(s.confirmation.local, true, o.Local)
		rests := it.Evidence() != nil && it.Evidence().MissingNode
		s.confirmation.missing = since(s.confirmation.missing, rests, o.Now)
		s.confirmation.missingLocal = since(s.confirmation.missingLocal, rests, o.Local)
	}
	if node := it.ClaimedOn(); node != "" && !slices.Contains(s.carried, node) {
		s.carried = append(s.carried, node)
	}
	if owner := it.Owner(); owner.UID == "" {
		pod := it.PodByOwnerName()
		if pod != nil && pod.Node != "" {
			s.ranOn(pod.Node)
		}
		s.notePod(pod)
	}
	h.candidates[k] = s
}

// ranOn notes the node of the pod by the owner's name.
func (s *seen) ranOn(node string) {
	if s.node != "" && s.node != node && !slices.Contains(s.others, s.node) {
		s.others = append(s.others, s.node)
	}
	s.node = node
}

func since(first time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case first.IsZero():
		return now
	}
	return first
}

// notePod remembers for how long a pod that was deleted may still be running: a
// pod that is not there any more was deleted, with the grace period that it had.
func (s *seen) notePod(pod *podstate.Pod) {
	if s.pod != "" && (pod == nil || pod.UID != s.pod) {
		s.deleted = max(s.deleted, s.grace)
		s.pod = ""
	}
	if pod != nil {
		s.pod, s.grace = pod.UID, pod.Grace
		if !pod.Deleted.IsZero() {
			s.deleted = max(s.deleted, pod.Grace)
		}
	}
}

// contradicted makes an unconfirmed verdict be confirmed from now on: something contradicted it.
func (h *History) contradicted(it *judge.Item) {
	h.candidates[h.keyOf(it)].confirmation.reset()
}

func (r *confirmation) reset() {
	if r != nil {
		*r = confirmation{}
	}
}

// quarantine is how long a Node object must have been gone before that counts,
// whatever --confirm-after says (Kubernetes v1.36,
// pkg/controller/podgc/gc_controller.go, quarantineTime).
const quarantine = 40 * time.Second

// confirmedAt is when an unconfirmed verdict may be acted upon: when it has held at
// every pass for confirmAfter, or for longer where the pod may still be within
// its grace period.
func (h *History) confirmedAt(it *judge.Item, o *judge.Observation, confirmAfter time.Duration) time.Time {
	s := h.candidates[h.keyOf(it)]
	r := s.confirmation
	if r == nil || r.stale.IsZero() {
		s, r = seen{}, &confirmation{stale: o.Now, local: o.Local}
	}
	e := it.Evidence()
	switch {
	case e == nil || e.Phase != podstate.Pending:
	case e.Sandbox == judge.Absent:
		confirmAfter = max(confirmAfter, judge.HeardSince)
	case e.AgentMayNotKnow && !e.Unproven: // then it is proven
		confirmAfter = judge.HeardSince
	}
	if s.deleted > confirmAfter {
		confirmAfter = s.deleted + time.Minute
	}
	at := later(r.stale.Add(confirmAfter), lapsed(o, r.local, confirmAfter))
	if it.Reason == judge.NodeMissingReason {
		if renewed := it.LastRenewed(); !renewed.IsZero() && renewed.Before(r.stale) {
			at = renewed.Add(confirmAfter)
		}
	}
	if e == nil || !e.MissingNode {
		return at
	}
	missing, gone := r.missing, r.missingLocal
	if missing.IsZero() {
		missing, gone = o.Now, o.Local
	}
	return later(later(at, missing.Add(quarantine)), lapsed(o, gone, quarantine))
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
