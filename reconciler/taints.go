package reconciler

import (
	"maps"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// doubtsTaint reports whether the restore may have brought back the out-of-service taint of a node. Taints have no
// date, and the node may have been repaired since the backup. So a taint that a restore brought proves nothing until
// somebody sets it again. DoubtsAll says that no pass since the restore has read the Nodes: then all are in doubt.
func (r *restore) doubtsTaint(n *podstate.Node) bool {
	taint, inDoubt := r.Taints[n.Name]
	return n.OutOfService && (r.DoubtsAll || inDoubt && taint == n.OutOfServiceTaint)
}

// DoubtsTaint reports whether a restore may have brought back the out-of-service taint of a node.
func (h *History) DoubtsTaint(n *podstate.Node) bool { return h.restore.doubtsTaint(n) }

// DoubtsStatus reports whether a restore may have brought back the network-status of a sandbox before the one that was
// created at a time.
func (h *History) DoubtsStatus(created time.Time) bool {
	detected := h.restore.DetectedAt
	return !detected.IsZero() && created.Before(detected.Add(maxClockDifference))
}

// noteDoubts records the taints of the first pass since a restore. Later passes drop those that have changed. The pass
// that detects the restore may still have Nodes from before it.
func (r *restore) noteDoubts(o *judge.Observation) {
	if o.Restored != "" || len(o.Nodes.Or(nil)) == 0 {
		return
	}
	if r.DoubtsAll {
		r.DoubtsAll, r.Taints = false, map[string]string{}
		for name, n := range o.Nodes.Or(nil) {
			if n.OutOfService {
				r.Taints[name] = n.OutOfServiceTaint
			}
		}
	}
	maps.DeleteFunc(r.Taints, func(name, _ string) bool {
		n := o.Nodes.Or(nil)[name] // a missing Node is judged as such, and may return with its taint
		return n != nil && !r.doubtsTaint(n)
	})
}

// acknowledgeDoubts drops the doubts about nodes without a report, once an operator has acknowledged the restore.
func (r *restore) acknowledgeDoubts(j *judge.Judgement) {
	if len(r.Taints) == 0 || !r.isAcknowledged(j.Observation) {
		return
	}
	reports := reportsByName(j.Observation)
	maps.DeleteFunc(r.Taints, func(name, _ string) bool {
		return j.WithoutAgents || r.awaits(name, reports[name], j.Observation)
	})
}
