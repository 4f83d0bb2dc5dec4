package judge

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// nextRecheck is the first time after now at which a rule that looks at the clock may
// come to another answer. What is unconfirmed is not in it: that is the plan's.
func (x *Index) nextRecheck(j *Judgement) time.Time {
	d := recheckTime{now: x.now}
	for _, r := range x.reports {
		d.add(r.FreshUntil())
		if at, ok := x.expires(r); ok {
			d.add(at)
		}
		if r.ObservedAt.After(x.now) { // else ages do not grow: they count to it
			d.add(r.NextAgeChange(x.now))
		}
	}
	for _, p := range x.o.Pods {
		if slices.ContainsFunc(p.Interfaces, func(i podstate.Interface) bool { return len(i.Addresses) > 0 }) {
			d.add(p.Created.Add(addTimeLimit))
			d.add(p.Created.Add(HeardSince))
		}
	}
	added := map[*string]bool{} // many share one list of nodes
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if it.Reservation != nil {
			d.add(it.Reservation.Created.Add(addTimeLimit))
		}
		e := &it.evidence
		if e.Pod != nil {
			d.add(e.Pod.Created.Add(addTimeLimit))
			if !e.Pod.Deleted.IsZero() {
				d.add(e.Pod.OverdueAfter())
			}
		}
		if x.policy.UnreachableNodeTimeout == 0 || len(e.Nodes) == 0 || added[&e.Nodes[0]] {
			continue
		}
		added[&e.Nodes[0]] = true
		for _, n := range e.Nodes {
			if x.notReady(n) {
				d.add(x.o.Nodes[n].NotReadySince.Add(x.policy.UnreachableNodeTimeout))
			}
		}
	}
	return d.first
}

// recheckTime keeps the first of the times that are still to come.
type recheckTime struct{ now, first time.Time }

func (d *recheckTime) add(t time.Time) {
	if !t.Before(d.now) && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}
