package reconciler

import (
	"maps"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// doubtedTaints are the out-of-service taints that were there when a restore of etcd had been
// noticed. Nothing dates a taint: it may be that of a node which was repaired after the
// backup and runs. So it proves nothing until somebody sets it again. The same goes for the boot
// that a Node is at: the backup's is an earlier one than that of a report written since.
type doubtedTaints struct {
	all   bool              // no pass since the restore has seen the Nodes
	as    map[string]string // by node: what is doubted
	boots map[string]string // by node: the bootID that is doubted
}

func (t *doubtedTaints) doubtsBoot(n *podstate.Node) bool {
	boot, doubted := t.boots[n.Name]
	return t.all || doubted && boot == n.BootID
}

// DoubtsBoot reports whether the boot that a Node is at may be one that a restore has brought back.
func (h *History) DoubtsBoot(n *podstate.Node) bool { return h.restore.taints.doubtsBoot(n) }

func (t *doubtedTaints) doubts(n *podstate.Node) bool {
	if !n.OutOfService {
		return false
	}
	as, doubted := t.as[n.Name]
	return t.all || doubted && as == n.OutOfServiceAs
}

// DoubtsTaint reports whether a node's taint may be one that a restore has brought back.
func (h *History) DoubtsTaint(n *podstate.Node) bool { return h.restore.taints.doubts(n) }

// noteTaints takes in which taints there are in the first pass since a restore, and from then
// on which of them have gone: one that is set after that, or as another, is believed. The
// pass that shows the restore may still have Nodes of before it.
func (r *restore) noteTaints(o *judge.Observation) {
	t := &r.taints
	if o.Restored != "" || len(o.Nodes) == 0 {
		return
	}
	if t.all {
		t.all, t.as, t.boots = false, map[string]string{}, map[string]string{}
		for name, n := range o.Nodes {
			if n.OutOfService {
				t.as[name] = n.OutOfServiceAs
			}
			t.boots[name] = n.BootID
		}
		r.believeBoots(o)
		return
	}
	r.believeBoots(o)
	maps.DeleteFunc(t.as, func(name, _ string) bool {
		n := o.Nodes[name] // one that is missing is judged as such, and may be back with its taint
		return n != nil && !t.doubts(n)
	})
}

// believeBoots believes the boot of a Node once it is another than after the restore, or
// once the node has reported since that it runs in this very boot.
func (r *restore) believeBoots(o *judge.Observation) {
	if len(r.taints.boots) == 0 {
		return
	}
	reports := reportsByName(o)
	maps.DeleteFunc(r.taints.boots, func(name, boot string) bool {
		n, report := o.Nodes[name], reports[name]
		return n != nil && (n.BootID != boot || report != nil && report.BootID == boot && r.wroteSince(report))
	})
}

// acknowledgeTaints believes the taints of the nodes that an operator was told of and has
// acknowledged to run nothing: not that of a node which has written its report since.
func (r *restore) acknowledgeTaints(j *judge.Judgement) {
	if len(r.taints.as)+len(r.taints.boots) == 0 || !r.acknowledged(j.Observation) {
		return
	}
	reports := reportsByName(j.Observation)
	believed := func(name, _ string) bool {
		return j.WithoutAgents || r.awaits(name, reports[name], j.Observation)
	}
	maps.DeleteFunc(r.taints.as, believed)
	maps.DeleteFunc(r.taints.boots, believed)
}
