package reconciler

import (
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// nodeHistory is what earlier passes knew of the nodes that must report. A node leaves by evidence only: two complete
// lists without its Node object that are NodeQuarantine apart, or a verdict of package judge that it need not report.
type nodeHistory struct {
	// required are the nodes of the last pass with known nodes. The time is since when a node has no Node object.
	required map[string]moment
	reported map[string]time.Time // when the report of each of them was confirmed last; none for never
	lacking  map[string]bool      // those without a fresh report in the last pass
	// lost are those that lacked a fresh report in the pass before, and whose Node object is gone or which need no report
	// any more.
	lost map[string]bool
}

// note records the nodes of a pass. If nodes are unknown, or etcd was restored meanwhile, none leaves.
func (n *nodeHistory) note(j *judge.Judgement) {
	o := j.Observation
	nodes, known := o.Nodes.Get()
	if n.lost = nil; !known || o.Restored != "" {
		return
	}
	required, reported := map[string]moment{}, map[string]time.Time{}
	for _, name := range j.AgentNodes() {
		var missing moment
		if nodes[name] == nil {
			missing = n.required[name].orNow(o)
			if !o.Now.Before(missing.deadline(NodeQuarantine, o)) {
				continue
			}
		}
		required[name] = missing
	}
	maps.Copy(reported, n.reported)
	for _, r := range o.Reports.Or(nil) {
		if r.ConfirmedAt.After(reported[r.Name]) {
			reported[r.Name] = r.ConfirmedAt
		}
	}
	lacking, lost := map[string]bool{}, map[string]bool{}
	for name, state := range j.Nodes {
		if state == judge.NodeNoFreshReport {
			lacking[name] = true
		}
	}
	for name := range n.lacking {
		if _, remains := required[name]; !remains || nodes[name] == nil {
			lost[name] = true
		}
	}
	maps.DeleteFunc(reported, func(name string, _ time.Time) bool {
		_, remains := required[name]
		return !remains && !lost[name]
	})
	n.required, n.reported, n.lacking, n.lost = required, reported, lacking, lost
}

func (n *nodeHistory) expected() []string { return slices.Sorted(maps.Keys(n.required)) }

// hasLost reports whether one of the nodes that an item waited for is gone without a report. A report that was
// confirmed after the item was first observed is one: a sandbox precedes its allocation.
func (n *nodeHistory) hasLost(nodes []string, first time.Time) bool {
	return len(n.lost) > 0 && slices.ContainsFunc(nodes, func(name string) bool {
		return n.lost[name] && !n.reported[name].After(first.Add(judge.MinAbsenceWhilePending))
	})
}
