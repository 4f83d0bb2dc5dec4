package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	repairs  map[string]time.Time
}

type seen struct {
	stale time.Time // since when judged Stale at every look; zero if it was not at the last
	node  string    // of the pod that was last seen carrying the address
	grace time.Duration
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

// checkRevision notices that etcd was restored: its revision ran backwards.
func (h *History) checkRevision(o *Observation) {
	if o.Revision != 0 && o.Revision < h.revision && o.Restored == "" {
		o.Restored = fmt.Sprintf("resourceVersion %d after %d", o.Revision, h.revision)
	}
	h.revision = o.Revision
}

// Remember takes in a look at everything.
func (h *History) Remember(j *Judgement) {
	h.reports = h.reports || len(j.Observation.Reports) > 0
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
		s = &seen{}
		h.subjects[it.ID] = s
	}
	if it.Verdict != Stale {
		s.stale = time.Time{}
	} else if s.stale.IsZero() {
		s.stale = o.Now
	}
	if e := it.Evidence; e != nil && e.OnPod && e.Pod.Node != "" {
		s.node = e.Pod.Node
	}
	owner := it.owner()
	if pod := o.Pods[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}]; pod != nil && owner.UID == "" {
		s.grace = pod.Grace
	}
}

// forgetStale makes an unconfirmed verdict ripen anew: something contradicted it.
func (h *History) forgetStale(id ID) {
	if s := h.subjects[id]; s != nil {
		s.stale = time.Time{}
	}
}

// quarantine is how long a Node object must have been gone before that counts,
// whatever --confirm-after says (Kubernetes v1.36,
// pkg/controller/podgc/gc_controller.go, quarantineTime).
const quarantine = 40 * time.Second

// ripe is when an unconfirmed verdict may be acted upon: when it has held at
// every look for confirmAfter, or for longer where the pod may still be within
// its grace period.
func (h *History) ripe(it *Item, o *Observation, confirmAfter time.Duration) time.Time {
	s := h.subjects[it.ID]
	if s == nil || s.stale.IsZero() {
		s = &seen{stale: o.Now}
	}
	since := s.stale
	if s.grace > confirmAfter {
		confirmAfter = s.grace + time.Minute
	}
	if it.Reason == NodeMissingReason {
		since = lastHeard(it, o, since)
		confirmAfter = max(confirmAfter, quarantine)
	}
	return since.Add(confirmAfter)
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
