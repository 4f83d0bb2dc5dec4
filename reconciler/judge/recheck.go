package judge

import "time"

// nextRecheck is the first time after now at which a rule that looks at the clock may
// come to another answer; d is what verdicts have asked of it. What is unconfirmed is
// not in it: that is the plan's.
func (x *Index) nextRecheck(d recheckTime) time.Time {
	for _, r := range x.reports {
		d.add(r.FreshUntil())
		if at, ok := x.expires(r); ok {
			d.add(at)
		}
		if r.ObservedAt.After(x.now) { // else ages do not grow: they count to it
			d.add(r.NextAgeChange(x.now))
		}
	}
	for p := range x.youngPods {
		d.add(p.Created.Add(addTimeLimit))
		d.add(p.Created.Add(HeardSince))
	}
	return d.first
}

// addRecheck adds what the rules ask of the pod and the nodes of an item.
func (w *verdicts) addRecheck(e *Evidence) {
	if e.Pod != nil {
		w.recheck.add(e.Pod.Created.Add(addTimeLimit))
		if !e.Pod.Deleted.IsZero() {
			w.recheck.add(e.Pod.OverdueAfter())
		}
	}
	if w.x.policy.UnreachableNodeTimeout == 0 {
		return
	}
	if len(e.Nodes) > 1 && len(e.Nodes) == len(w.x.agentNodes) && &e.Nodes[0] == &w.x.agentNodes[0] { // shared by many
		if w.agentNodesAdded {
			return
		}
		w.agentNodesAdded = true
	}
	for _, n := range e.Nodes {
		if w.x.notReady(n) {
			w.recheck.add(w.x.o.Nodes[n].NotReadySince.Add(w.x.policy.UnreachableNodeTimeout))
		}
	}
}

// recheckTime keeps the first of the times that are still to come.
type recheckTime struct{ now, first time.Time }

func (d *recheckTime) add(t time.Time) {
	if !t.Before(d.now) && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}
