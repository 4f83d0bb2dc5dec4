package memory

import (
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// nodes is what earlier passes knew of the nodes that must report, as a value. A node leaves by evidence only: two
// complete lists without its Node object that are NodeQuarantine apart, or a verdict of package judge that it need not
// report.
type nodes struct {
	// required are the nodes of the last pass with known nodes. The time is since when a node has no Node object.
	required map[string]moment
	reported map[string]time.Time // when the report of each of them was confirmed last; none for never
	joined   map[string]time.Time // when the Node object of each was created that was observed first
	lacking  map[string]bool      // those without a fresh report in the last pass
	// lost are those that lacked a fresh report in the pass before, and whose Node object is gone or which need no report
	// any more.
	lost map[string]bool
}

// next is what is known after a pass. If nodes are unknown, or etcd was restored meanwhile, none leaves.
func (n nodes) next(j *judge.Judgement) nodes {
	o := j.Observation
	objects, known := o.Nodes.Get()
	if n.lost = nil; !known || o.Restored != "" {
		return n
	}
	required, reported, joined := map[string]moment{}, map[string]time.Time{}, map[string]time.Time{}
	for _, name := range j.AgentNodes() {
		var missing moment
		if objects[name] == nil {
			missing = n.required[name].orNow(o)
			if !o.Now.Before(missing.deadline(NodeQuarantine, o)) {
				continue
			}
		}
		required[name] = missing
	}
	for name, node := range objects {
		if _, isRequired := required[name]; isRequired {
			joined[name] = node.CreatedAt
		}
	}
	maps.Copy(joined, n.joined) // a Node object that was recreated is that of the same machine
	maps.Copy(reported, n.reported)
	for _, r := range o.Reports.Or(nil) {
		if r.ConfirmedAt.After(reported[r.Name]) {
			reported[r.Name] = r.ConfirmedAt
		}
	}
	lacking, lost := map[string]bool{}, map[string]bool{}
	for name, state := range j.Nodes {
		if state == facts.NodeNoFreshReport {
			lacking[name] = true
		}
	}
	for name := range n.lacking {
		if _, remains := required[name]; !remains || objects[name] == nil {
			lost[name] = true
		}
	}
	isForgotten := func(name string, _ time.Time) bool {
		_, remains := required[name]
		return !remains && !lost[name]
	}
	maps.DeleteFunc(reported, isForgotten)
	maps.DeleteFunc(joined, isForgotten)
	return nodes{required, reported, joined, lacking, lost}
}

func (n *nodes) expected() map[string]time.Time {
	expected := make(map[string]time.Time, len(n.required))
	for name := range n.required {
		expected[name] = n.joined[name]
	}
	return expected
}

// hasLost reports whether one of the nodes that an item waited for is gone without a report, and could have run the
// item's sandbox. A sandbox precedes its allocation. So a node could not if its report was confirmed after the item was
// first observed, or if it joined after that.
func (n *nodes) hasLost(nodes []string, first time.Time) bool {
	return len(n.lost) > 0 && slices.ContainsFunc(nodes, func(name string) bool {
		return n.lost[name] && !n.reported[name].After(first.Add(facts.MinAbsenceWhilePending)) &&
			!n.joined[name].After(first.Add(v1alpha1.MaxClockDifference))
	})
}
