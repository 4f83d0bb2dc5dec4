package reconciler

import (
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func (r *Reconciler) record(x audit.Record) {
	if r.Audit != nil {
		r.Audit(x)
	}
}

// recordItem records the release of an item, with the reservations that were deleted for it.
func (e *executor) recordItem(it *judge.Item, deleted []*ippool.Reservation) {
	x := audit.OfItem(audit.Released, e.observation().Now, it)
	if it.IsOverridden() {
		x.What, x.Because = audit.Overridden, e.Options.Because
	}
	for _, r := range deleted {
		x.Reservations = append(x.Reservations, r.Ref())
	}
	e.record(x)
}

func (e *executor) recordRepair(f *judge.Finding) {
	w := f.Repair
	x := audit.Record{What: audit.Repaired, Time: e.observation().Now.UTC(), Pool: f.Pool, IP: f.IP,
		Entry:  audit.Entry{Key: w.Key, PodRef: w.PodRef, ContainerID: w.ContainerID, IfName: w.IfName},
		Reason: string(f.Kind), Message: f.Message}
	if p := w.Previous; p != nil {
		x.Before = &audit.Entry{Key: p.Key, PodRef: p.PodRef, ContainerID: p.ContainerID, IfName: p.IfName}
	} else if p := w.PreviousReservation; p != nil {
		x.Before = &audit.Entry{PodRef: p.PodRef, IfName: p.IfName}
	}
	e.record(x)
}

// RecordRefusals records what a person asked to release, and what was not.
func (r *Reconciler) RecordRefusals(out *Result) {
	gates, isReleased := map[judge.ID]Gate{}, idsOf(out.Released)
	for _, x := range out.Refused {
		gates[x.ID()] = x.Gate
	}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		if !r.Options.ByHand || !r.Options.isInScope(it) || isReleased[it.ID()] || it.SharesVerdictOf() != nil {
			continue
		}
		x, g := audit.OfItem(audit.Refused, out.Observation.Now, it), gates[it.ID()]
		if x.Refusal = string(g.Why); g.Detail != "" {
			x.Message = g.Detail
		}
		r.record(x)
	}
}

// recordPauses records the pauses that this process did not observe before, and those that have ended.
func (r *Reconciler) recordPauses(o *judge.Observation, gates []Gate) {
	before, now := r.History.pauses, map[string]string{}
	for _, g := range gates {
		if g.Why == Paused {
			now[g.Pool] = g.Detail
		}
	}
	r.History.pauses = now
	record := func(what audit.What, since, other map[string]string) {
		for _, pool := range slices.Sorted(maps.Keys(since)) {
			if _, isKnown := other[pool]; !isKnown {
				r.record(audit.Record{What: what, Time: o.Now.UTC(), Pool: pool, Message: since[pool]})
			}
		}
	}
	record(audit.Paused, now, before)
	record(audit.Resumed, before, now)
}
