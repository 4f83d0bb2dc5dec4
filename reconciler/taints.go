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

// doubtsBoot reports whether the restore may have brought back an earlier boot of a Node than a later report has.
func (r *restore) doubtsBoot(n *podstate.Node) bool {
	boot, inDoubt := r.Boots[n.Name]
	return r.DoubtsAll || inDoubt && boot == n.BootID
}

// DoubtsTaint reports whether a restore may have brought back the out-of-service taint of a node.
func (h *History) DoubtsTaint(n *podstate.Node) bool { return h.restore.doubtsTaint(n) }

// DoubtsBoot reports whether a restore may have brought back an earlier boot of a Node.
func (h *History) DoubtsBoot(n *podstate.Node) bool { return h.restore.doubtsBoot(n) }

// DoubtsStatus reports whether a restore may have brought back the network-status of a sandbox before the one that was
// created at a time.
func (h *History) DoubtsStatus(created time.Time) bool {
	detected := h.restore.DetectedAt
	return !detected.IsZero() && created.Before(detected.Add(maxClockDifference))
}

// noteDoubts records the taints and boots of the first pass since a restore. Later passes drop those that have changed,
// and boots that the node's own report confirms. The pass that detects the restore may still have Nodes from before it.
func (r *restore) noteDoubts(o *judge.Observation) {
	if o.Restored != "" || len(o.Nodes) == 0 {
		return
	}
	if r.DoubtsAll {
		r.DoubtsAll, r.Taints, r.Boots = false, map[string]string{}, map[string]string{}
		for name, n := range o.Nodes {
			if r.Boots[name] = n.BootID; n.OutOfService {
				r.Taints[name] = n.OutOfServiceTaint
			}
		}
	}
	maps.DeleteFunc(r.Taints, func(name, _ string) bool {
		n := o.Nodes[name] // a missing Node is judged as such, and may return with its taint
		return n != nil && !r.doubtsTaint(n)
	})
	if len(r.Boots) == 0 {
		return
	}
	reports := reportsByName(o)
	maps.DeleteFunc(r.Boots, func(name, boot string) bool {
		n, report := o.Nodes[name], reports[name]
		return n != nil && (n.BootID != boot || report != nil && report.BootID == boot && r.isAfterRestore(report))
	})
}

// acknowledgeDoubts drops the doubts about nodes without a report, once an operator has acknowledged the restore.
func (r *restore) acknowledgeDoubts(j *judge.Judgement) {
	if len(r.Taints)+len(r.Boots) == 0 || !r.isAcknowledged(j.Observation) {
		return
	}
	reports := reportsByName(j.Observation)
	believed := func(name, _ string) bool {
		return j.WithoutAgents || r.awaits(name, reports[name], j.Observation)
	}
	maps.DeleteFunc(r.Taints, believed)
	maps.DeleteFunc(r.Boots, believed)
}
