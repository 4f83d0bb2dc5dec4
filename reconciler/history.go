package reconciler

import (
	"maps"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
)

// History is what the passes of one process have observed. It is empty after a start, which makes releases slower and
// never wrong.
type History struct {
	memory           memory.Memory
	hasReports       bool              // a pass has read a SandboxReport
	revision         uint64            // etcd's revision in the last pass
	versions         map[string]string // resourceVersions last read by quorum, or written, by kind and name
	releases         window            // what the breaker counted last
	isStoreForbidden bool              // RBAC forbids the BreakerStore
	restore          restore
	storedRestore    storedRestore
	lastCleanPass    time.Time            // the last pass that did not detect a restore of etcd
	repairs          map[string]time.Time // when each waiting finding was found first, by RepairKey
	repairCounts     map[judge.NodePool]window
	pauses           map[string]string // the pauses of the last pass in words, by pool
}

// NewHistory returns the History of a process that has just started.
func NewHistory() *History { return &History{} }

// Copy returns what judging reads of the History, which later passes do not change.
func (h *History) Copy() *History {
	c := *h
	c.restore.Taints = maps.Clone(h.restore.Taints)
	return &c
}

// Expected returns the nodes that had to report in earlier passes, each with the time at which it joined.
func (h *History) Expected() map[string]time.Time { return h.memory.Expected() }

// SawReports reports whether any pass has read a SandboxReport.
func (h *History) SawReports() bool { return h.hasReports }

// Of returns what is known of an allocation or a reservation.
func (h *History) Of(id judge.ID) judge.ItemHistory { return h.memory.Of(id) }

// Remember records a full pass.
func (h *History) Remember(j *judge.Judgement) {
	if j.Observation.Restored == "" {
		h.lastCleanPass = j.Observation.Now
	}
	h.noteNodes(j)
	h.hasReports = h.hasReports || len(j.Observation.Reports.Or(nil)) > 0
	h.noteRestores(j.Observation)
	h.memory = h.memory.Next(j)
	h.notePendingNodes(j)
	h.forgetRepairs(j.Observation.Now)
}

// delayOf is for how long an item has been proven, or else Stale, by this process's clock; ok is false if unknown.
func (h *History) delayOf(it *judge.Item, now time.Time) (d Delay, ok bool) {
	after, ok := h.memory.StandsFor(it, now)
	return Delay{Proven: it.Proven, After: after}, ok
}

// NodeQuarantine is how long a Node object must be missing before that counts, whatever --confirm-after says.
const NodeQuarantine = memory.NodeQuarantine

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
