package reconciler

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// History is what the looks of one process saw. It is empty after a start,
// which makes releases slower and never wrong. It keeps nothing of candidates
// that are no longer there.
type History struct {
	seeds      [2]maphash.Seed
	buffer     []byte
	candidates map[candidateKey]seen
	look       uint32 // counts the looks
	reports    bool   // a SandboxReport was seen
	revision   uint64 // etcd's revision at the last look
	released   window // as it was amended last
	alone      bool   // there is no right to a window that others find
	massed     int    // unconfirmed releases that the breaker refused at the last look at everything
	restore    restore
	kept       keptRestore
	last       time.Time // the last look that no restore of etcd showed in
	repairs    map[string]time.Time
	repaired   map[word]window // entries written by --repair
}

// candidateKey is a hash of an ID: of a hundred thousand entries the names would be
// most of what is remembered. No two IDs share 128 bits.
type candidateKey [2]uint64

type seen struct {
	first   int64         // when it was seen first, in nanoseconds
	ripens  *ripening     // nil where it was not Stale at the last look
	node    string        // of the pod that was last seen by the owner's name
	others  []string      // nodes of other pods that were seen by that name
	carried []string      // nodes of pods of other names that were seen carrying the address
	pod     string        // UID of the pod that was last seen by the owner's name
	grace   time.Duration // of that pod
	deleted time.Duration // the longest grace period of a pod that was deleted
	look    uint32        // the last look that saw it
}

// ripening is since when a verdict is as it is.
type ripening struct {
	stale   time.Time // since when judged Stale at every look; zero after what contradicted it
	local   time.Time // the same by this process' own clock
	missing time.Time // since when so because its Node is gone
	gone    time.Time // the same by this process' own clock
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

func (h *History) keyOf(it *Item) candidateKey {
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

func (h *History) sawReports() bool { return h != nil && h.reports }

// carriedOn are the nodes of pods of other names that were seen carrying the address.
func (h *History) carriedOn(s *candidate) []string { return h.of(s).carried }

// ranOn are the nodes of pods that were seen by the owner's name.
func (h *History) ranOn(s *candidate) []string {
	was := h.of(s)
	if was.node == "" {
		return slices.Clone(was.others)
	}
	return append(slices.Clone(was.others), was.node)
}

// staleSince is since when the candidate was judged Stale at every look; zero if it was
// not at the last one.
func (h *History) staleSince(s *candidate) time.Time {
	if r := h.of(s).ripens; r != nil {
		return r.stale
	}
	return time.Time{}
}

// of is what is remembered of a candidate.
func (h *History) of(s *candidate) seen {
	switch {
	case h == nil || len(h.candidates) == 0:
		return seen{}
	case s.alloc != nil:
		return h.candidates[h.allocationKey(s.pool.Pool, s.alloc)]
	}
	return h.candidates[h.reservationKey(s.reservation)]
}

// Remember takes in a look at everything.
func (h *History) Remember(j *Judgement) {
	if j.Observation.Restored == "" {
		h.last = j.Observation.Now
	}
	h.look++
	h.noteNodes(j)
	h.noteAll(j)
	h.noteAwaited(j)
	maps.DeleteFunc(h.candidates, func(_ candidateKey, s seen) bool { return s.look != h.look })
}

// noteAll takes in what a judgement says of its items.
func (h *History) noteAll(j *Judgement) {
	h.reports = h.reports || len(j.Observation.Reports) > 0
	h.noteRestores(j.Observation)
	for _, items := range [][]*Item{j.Allocations, j.Reservations} {
		for _, it := range items {
			h.note(it, j.Observation)
		}
	}
}

func (h *History) note(it *Item, o *Observation) {
	k := h.keyOf(it)
	s, known := h.candidates[k]
	if !known {
		s.first = o.Now.UnixNano()
	}
	s.look = h.look
	switch {
	case it.Verdict != Stale:
		s.ripens = nil
	case s.ripens == nil:
		s.ripens = &ripening{}
		fallthrough
	default:
		s.ripens.stale = since(s.ripens.stale, true, o.Now)
		s.ripens.local = since(s.ripens.local, true, o.Local)
		rests := it.Evidence() != nil && it.Evidence().MissingNode
		s.ripens.missing = since(s.ripens.missing, rests, o.Now)
		s.ripens.gone = since(s.ripens.gone, rests, o.Local)
	}
	if e := it.more.evidence; e != nil && e.claimedOn != "" && !slices.Contains(s.carried, e.claimedOn) {
		s.carried = append(s.carried, e.claimedOn)
	}
	if owner := it.owner(); owner.UID == "" {
		pod := it.more.x.pod(owner.Namespace, owner.Name)
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

// Age is for how long this process has known an entry or reservation: whereabouts
// writes no time beside it. 0 if it does not know it.
func (h *History) Age(it *Item, now time.Time) time.Duration {
	if s, known := h.candidates[h.keyOf(it)]; known {
		return now.Sub(time.Unix(0, s.first)).Round(time.Second)
	}
	return 0
}

// forgetStale makes an unconfirmed verdict ripen from now on: something contradicted it.
func (h *History) forgetStale(it *Item) {
	h.candidates[h.keyOf(it)].ripens.forget()
}

func (r *ripening) forget() {
	if r != nil {
		*r = ripening{}
	}
}

// quarantine is how long a Node object must have been gone before that counts,
// whatever --confirm-after says (Kubernetes v1.36,
// pkg/controller/podgc/gc_controller.go, quarantineTime).
const quarantine = 40 * time.Second

// heardSince is how long a sandbox must have been absent before that counts while its
// pod is Pending, whatever --confirm-after says: as long as a report is fresh. Before
// that its agent may have looked last when the ADD had not yet begun.
const heardSince = time.Minute

// ripe is when an unconfirmed verdict may be acted upon: when it has held at
// every look for confirmAfter, or for longer where the pod may still be within
// its grace period.
func (h *History) ripe(it *Item, o *Observation, confirmAfter time.Duration) time.Time {
	s := h.candidates[h.keyOf(it)]
	r := s.ripens
	if r == nil || r.stale.IsZero() {
		s, r = seen{}, &ripening{stale: o.Now, local: o.Local}
	}
	e := it.Evidence()
	switch {
	case e == nil || e.Phase != podstate.Pending:
	case e.Sandbox == Absent:
		confirmAfter = max(confirmAfter, heardSince)
	case e.Unsettled && !e.Unproven: // then it is proven
		confirmAfter = heardSince
	}
	if s.deleted > confirmAfter {
		confirmAfter = s.deleted + time.Minute
	}
	at := later(r.stale.Add(confirmAfter), lapsed(o, r.local, confirmAfter))
	if it.Reason == NodeMissingReason {
		if heard := lastHeard(it, r.stale); heard.Before(r.stale) {
			at = heard.Add(confirmAfter)
		}
	}
	if e == nil || !e.MissingNode {
		return at
	}
	missing, gone := r.missing, r.gone
	if missing.IsZero() {
		missing, gone = o.Now, o.Local
	}
	return later(later(at, missing.Add(quarantine)), lapsed(o, gone, quarantine))
}

// lapsed is when d will have passed since a time by this process' own clock: o.Now may
// be by another API server's than at the look before. Zero where there is no such clock.
func lapsed(o *Observation, since time.Time, d time.Duration) time.Time {
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

// lastHeard is when the agent of a missing node was last heard, if that is
// longer ago than since.
func lastHeard(it *Item, since time.Time) time.Time {
	var last time.Time
	for _, node := range it.Evidence().Nodes {
		if r := it.more.x.byNode[node]; r != nil {
			last = later(last, r.LeaseRenewed)
		}
	}
	if last.IsZero() || last.After(since) {
		return since
	}
	return last
}
