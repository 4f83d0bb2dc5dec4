package reconciler

import (
	"slices"
	"time"
)

// due is the first time after now at which a rule that looks at the clock may
// come to another answer. What is unripe is not in it: that is the plan's.
func (w *world) due(j *Judgement) time.Time {
	d := deadline{now: w.Now}
	for _, r := range w.Reports {
		d.add(r.FreshUntil())
		if r.ObservedAt.After(w.Now) { // else ages do not grow: they count to it
			d.add(r.AgesAfter(w.Now))
		}
	}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if it.Reservation != nil {
			d.add(it.Reservation.Created.Add(recentFor))
		}
		if e := it.Evidence; e != nil {
			d.addEvidence(w, e)
		}
	}
	for _, carriers := range w.pods {
		for _, c := range carriers {
			d.add(c.pod.Created.Add(recentFor))
		}
	}
	return d.first
}

// addEvidence adds what the rules ask of the pod and the nodes of an item.
func (d *deadline) addEvidence(w *world, e *Evidence) {
	if e.Pod != nil {
		d.add(e.Pod.Created.Add(recentFor))
		d.add(e.Pod.OverdueAfter())
	}
	if w.policy.UnreachableNodeTimeout == 0 {
		return
	}
	for _, n := range slices.Concat(e.Unheard, e.Nodes) {
		if w.notReady(n) {
			d.add(w.Nodes[n].NotReadyFor.Add(w.policy.UnreachableNodeTimeout))
		}
	}
}

// deadline keeps the first of the times that are still to come.
type deadline struct{ now, first time.Time }

func (d *deadline) add(t time.Time) {
	if !t.Before(d.now) && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}
