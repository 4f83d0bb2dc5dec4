package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// History is what the looks of one process saw. It is empty after a start,
// which makes releases slower and never wrong. It keeps nothing of subjects
// that are no longer there.
type History struct {
	subjects map[ID]*seen
	reports  bool   // a SandboxReport was seen
	revision uint64 // etcd's revision at the last look
	released []releaseCount
	restored time.Time // when a look showed that etcd was restored
	intact   time.Time // the last look before that one
	last     time.Time // the last look
	repairs  map[string]time.Time
}

type seen struct {
	first   time.Time     // when it was seen first
	local   time.Time     // since when judged Stale at every look, by this process' own clock
	stale   time.Time     // since when judged Stale at every look; zero if it was not at the last
	missing time.Time     // since when so because its Node is gone
	node    string        // of the pod that was last seen carrying the address
	pod     string        // UID of the pod that was last seen by the owner's name
	grace   time.Duration // of that pod
	deleted time.Duration // the longest grace period of a pod that was deleted
}

// NewHistory is the memory of a process that has just started.
func NewHistory() *History { return &History{subjects: map[ID]*seen{}} }

func (h *History) sawReports() bool { return h != nil && h.reports }

// carriedOn are the nodes of pods that were seen carrying the address.
func (h *History) carriedOn(id ID) []string {
	if h == nil || h.subjects[id] == nil || h.subjects[id].node == "" {
		return nil
	}
	return []string{h.subjects[id].node}
}

// Restored is when a look last showed that etcd was restored; zero if none did.
func (h *History) Restored() time.Time { return h.restored }

// checkRevision notices that etcd was restored: its revision ran backwards.
func (h *History) checkRevision(o *Observation) {
	if o.Revision != 0 && o.Revision < h.revision && o.Restored == "" {
		o.Restored = fmt.Sprintf("resourceVersion %d after %d", o.Revision, h.revision)
	}
	if o.Revision != 0 {
		h.revision = o.Revision
	}
	if o.Restored != "" { // at once: what follows may fail
		h.noteRestore(o.Now)
	}
}

func (h *History) noteRestore(now time.Time) {
	if !h.restored.Before(now) {
		return
	}
	h.restored, h.intact = now, h.last
	for id := range h.subjects { // what was seen before is no ground for what ripens
		h.forgetStale(id)
	}
}

// Remember takes in a look at everything.
func (h *History) Remember(j *Judgement) {
	h.reports = h.reports || len(j.Observation.Reports) > 0
	h.last = j.Observation.Now
	present := map[ID]bool{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		present[it.ID] = true
		h.note(it, j.Observation)
	}
	maps.DeleteFunc(h.subjects, func(id ID, _ *seen) bool { return !present[id] })
}

func (h *History) note(it *Item, o *Observation) {
	s := h.subjects[it.ID]
	if s == nil {
		s = &seen{first: o.Now}
		h.subjects[it.ID] = s
	}
	s.stale = since(s.stale, it.Verdict == Stale, o.Now)
	s.local = since(s.local, it.Verdict == Stale, o.Local)
	s.missing = since(s.missing, it.Reason == NodeMissingReason, o.Now)
	if e := it.Evidence; e != nil && e.OnPod && e.Pod.Node != "" {
		s.node = e.Pod.Node
	}
	owner := it.owner()
	if owner.UID == "" {
		s.notePod(o.Pods[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}])
	}
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
func (h *History) Age(id ID, now time.Time) time.Duration {
	if s := h.subjects[id]; s != nil {
		return now.Sub(s.first).Round(time.Second)
	}
	return 0
}

// forgetStale makes an unconfirmed verdict ripen anew: something contradicted it.
func (h *History) forgetStale(id ID) {
	if s := h.subjects[id]; s != nil {
		s.stale, s.local = time.Time{}, time.Time{}
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
	s := h.subjects[it.ID]
	if s == nil || s.stale.IsZero() {
		s = &seen{stale: o.Now}
	}
	if e := it.Evidence; e != nil && e.Pod != nil && e.Phase == podstate.Pending && e.Sandbox == Absent {
		confirmAfter = max(confirmAfter, heardSince)
	}
	if s.deleted > confirmAfter {
		confirmAfter = s.deleted + time.Minute
	}
	if it.Reason != NodeMissingReason {
		return later(s.stale.Add(confirmAfter), s.lapsed(o, confirmAfter))
	}
	at := lastHeard(it, o, s.stale).Add(confirmAfter)
	missing := s.missing
	if missing.IsZero() {
		missing = o.Now
	}
	if gone := missing.Add(quarantine); gone.After(at) {
		return gone
	}
	return at
}

// lapsed is when d will have passed since the verdict began, by this process' own
// clock: o.Now may be by another API server's than at the look before. Zero where
// there is no such clock.
func (s *seen) lapsed(o *Observation, d time.Duration) time.Time {
	if s.local.IsZero() {
		return time.Time{}
	}
	return o.Now.Add(d - o.Local.Sub(s.local))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// lastHeard is when the agent of a missing node was last heard, if that is
// longer ago than since.
func lastHeard(it *Item, o *Observation, since time.Time) time.Time {
	var last time.Time
	for _, r := range o.Reports {
		if slices.Contains(it.Evidence.Nodes, r.Name) && r.LastHeard.After(last) {
			last = r.LastHeard
		}
	}
	if last.IsZero() || last.After(since) {
		return since
	}
	return last
}
