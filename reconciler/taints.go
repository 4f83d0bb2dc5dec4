package reconciler

import (
	"maps"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A restore brings out-of-service taints back, and nothing dates a taint: the node may have been repaired after the
// backup, and run. So a taint that was there after the restore proves nothing until somebody sets it again. The same
// goes for the boot of a Node: the backup has an earlier one than a report that was written since.
// DoubtsAll says that no pass since the restore has seen the Nodes: then all are doubted.

func (r *restore) doubtsTaint(n *podstate.Node) bool {
	taint, doubted := r.Taints[n.Name]
	return n.OutOfService && (r.DoubtsAll || doubted && taint == n.OutOfServiceTaint)
}

func (r *restore) doubtsBoot(n *podstate.Node) bool {
	boot, doubted := r.Boots[n.Name]
	return r.DoubtsAll || doubted && boot == n.BootID
}

// DoubtsTaint reports whether a restore may have brought the out-of-service taint of a node back.
func (h *History) DoubtsTaint(n *podstate.Node) bool { return h.restore.doubtsTaint(n) }

// DoubtsBoot reports whether a restore may have brought the boot of a Node back.
func (h *History) DoubtsBoot(n *podstate.Node) bool { return h.restore.doubtsBoot(n) }

// noteDoubts notes the taints and boots of the first pass since a restore, and later which of them are gone or, for a
// boot, confirmed by the node's own report. The pass that shows the restore may still have Nodes of before it.
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
		n := o.Nodes[name] // a missing one is judged as such, and may be back with its taint
		return n != nil && !r.doubtsTaint(n)
	})
	if len(r.Boots) == 0 {
		return
	}
	reports := reportsByName(o)
	maps.DeleteFunc(r.Boots, func(name, boot string) bool {
		n, report := o.Nodes[name], reports[name]
		return n != nil && (n.BootID != boot || report != nil && report.BootID == boot && r.isSince(report))
	})
}

// acknowledgeDoubts believes the taints and boots of the nodes that an operator has acknowledged to run nothing: those
// that were still waited for.
func (r *restore) acknowledgeDoubts(j *judge.Judgement) {
	if len(r.Taints)+len(r.Boots) == 0 || !r.acknowledged(j.Observation) {
		return
	}
	reports := reportsByName(j.Observation)
	believed := func(name, _ string) bool {
		return j.WithoutAgents || r.awaits(name, reports[name], j.Observation)
	}
	maps.DeleteFunc(r.Taints, believed)
	maps.DeleteFunc(r.Boots, believed)
}
