package restore

import (
	"maps"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// SawReports reports whether agents exist: a pass has read a SandboxReport, a restore has lost one, or another process
// awaits the reports of nodes.
func (s State) SawReports() bool { return s.sawReports }

// DoubtsTaint reports whether a restore may have brought back the out-of-service taint of a node.
func (s State) DoubtsTaint(n *podstate.Node) bool { return s.last.doubtsTaint(n) }

// DoubtsStatus reports whether a restore may have brought back the network-status of a sandbox before the one that was
// created at a time.
func (s State) DoubtsStatus(created time.Time) bool {
	detected := s.last.At
	return !detected.IsZero() && created.Before(detected.Add(v1alpha1.MaxClockDifference))
}

// doubtsTaint reports whether the restore may have brought back the out-of-service taint of a node. Taints have no
// date, and the node may have been repaired since the backup. So a taint that a restore brought proves nothing until
// somebody sets it again. DoubtsAll says that no pass since the restore has read the Nodes: then all are in doubt.
func (r last) doubtsTaint(n *podstate.Node) bool {
	taint, inDoubt := r.Taints[n.Name]
	return n.OutOfService && (r.DoubtsAll || inDoubt && taint == n.OutOfServiceTaint)
}

// LosesNode returns the ID of the restore that has lost the Node object of a node whose agent has reported since; ""
// for none. Nobody has deleted that object, and the machine runs on: kubelet registers it only when it starts. It is
// lost until it exists, or an operator acknowledges the restore.
func (s State) LosesNode(node string) (id string) {
	if s.last.Unregistered[node] {
		id = s.last.ID
	}
	return id
}

// unregistered are the lost nodes that have reported since, and have no Node object.
func (s State) unregistered(o *facts.Observation, reports map[string]*podstate.Report) map[string]bool {
	found := map[string]bool{}
	for _, name := range s.last.lostNodes() {
		if report := reports[name]; report != nil && s.isSince(report) && o.Nodes.Or(nil)[name] == nil {
			found[name] = true
		}
	}
	return found
}

func (r last) withUnregistered(nodes map[string]bool) last {
	if len(nodes) > 0 {
		all := maps.Clone(nodes)
		maps.Copy(all, r.Unregistered)
		r.Unregistered = all
	}
	return r
}

// withRegistered drops the nodes that have a Node object again, and all once an operator acknowledges the restore.
func (r last) withRegistered(o *facts.Observation) last {
	r.Unregistered = maps.Clone(r.Unregistered)
	maps.DeleteFunc(r.Unregistered, func(name string, _ bool) bool {
		return o.Nodes.Or(nil)[name] != nil || r.isAcknowledged(o)
	})
	return r
}

// withTaints records the taints of the first observation since a restore. Later ones drop those that have changed.
func (r last) withTaints(o *facts.Observation) last {
	nodes := o.Nodes.Or(nil)
	if len(nodes) == 0 || !r.DoubtsAll && len(r.Taints) == 0 {
		return r
	}
	taints := maps.Clone(r.Taints)
	if r.DoubtsAll {
		taints = map[string]string{}
		for name, n := range nodes {
			if n.OutOfService {
				taints[name] = n.OutOfServiceTaint
			}
		}
	}
	r.DoubtsAll, r.Taints = false, taints
	maps.DeleteFunc(taints, func(name, _ string) bool {
		n := nodes[name] // a missing Node is judged as such, and may return with its taint
		return n != nil && !r.doubtsTaint(n)
	})
	return r
}

// withoutAcknowledged drops the doubts about nodes without a report, once an operator has acknowledged the restore.
func (s State) withoutAcknowledged(j *judge.Judgement) last {
	r := s.last
	if len(r.Taints) == 0 || !r.isAcknowledged(j.Observation) {
		return r
	}
	reports, taints := reportsByName(j.Observation), maps.Clone(r.Taints)
	maps.DeleteFunc(taints, func(name, _ string) bool {
		return j.WithoutAgents || s.awaits(name, reports[name], j.Observation)
	})
	r.Taints = taints
	return r
}
