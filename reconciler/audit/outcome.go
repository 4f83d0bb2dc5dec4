package audit

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Of returns the record of an outcome, without its Origin and its number.
func Of(o reconciler.Outcome) Record {
	switch o := o.(type) {
	case reconciler.Released:
		return ofRelease(o)
	case reconciler.Repaired:
		return ofRepair(o)
	case reconciler.Declined:
		r := ofItem(Refused, o.Time, o.Item)
		if r.Refusal = string(o.Gate.Why); o.Gate.Detail != "" {
			r.Message = o.Gate.Detail
		}
		return r
	case reconciler.Retired:
		return Record{What: Retired, Time: o.Time.UTC(), Pool: o.Pool.Ref(), Because: o.Because,
			Message: fmt.Sprintf("pool %s of the range %s was empty, and is deleted (UID %s)", o.Pool.Ref(), o.Pool.RangeText,
				o.Pool.UID)}
	case reconciler.Kept:
		return Record{What: Refused, Time: o.Time.UTC(), Pool: o.Pool.Ref(), Message: "not retired: " + o.Detail}
	case reconciler.PauseChanged:
		r := Record{What: Paused, Time: o.Time.UTC(), Pool: o.Pool, Message: o.Detail}
		if o.HasEnded {
			r.What = Resumed
		}
		return r
	}
	panic(fmt.Sprintf("%T has no record", o)) // a new kind of outcome needs one
}

func ofRelease(o reconciler.Released) Record {
	r := ofItem(Released, o.Time, o.Item)
	if o.Item.IsOverridden() {
		r.What, r.Because = Overridden, o.Because
	}
	for _, res := range o.Reservations {
		r.Reservations = append(r.Reservations, res.Ref())
	}
	return r
}

func ofRepair(o reconciler.Repaired) Record {
	f, w := o.Finding, o.Finding.Repair
	r := Record{What: Repaired, Time: o.Time.UTC(), Pool: f.Pool, IP: f.IP,
		Entry:  Entry{Key: w.Key, PodRef: w.PodRef, ContainerID: w.ContainerID, IfName: w.IfName},
		Reason: string(f.Kind), Message: f.Message}
	if p := w.Previous; p != nil {
		r.Before = &Entry{Key: p.Key, PodRef: p.PodRef, ContainerID: p.ContainerID, IfName: p.IfName}
	} else if p := w.PreviousReservation; p != nil {
		r.Before = &Entry{PodRef: p.PodRef, IfName: p.IfName}
	}
	return r
}

// ofItem returns the record of an item with its evidence.
func ofItem(what What, at time.Time, it *judge.Item) Record {
	r := Record{What: what, Time: at.UTC(), IP: it.Text(), Message: it.Message(), Evidence: it.Testimony(),
		Entry:   Entry{it.Key(), it.PodRef(), it.ContainerID(), it.IfName()},
		Verdict: it.Verdict, Reason: it.Reason.String(), Proven: it.Proven, Row: it.RuleID()}
	if it.Pool != nil {
		r.Pool = it.Object()
	} else {
		r.Reservations = []string{it.Object()}
	}
	return r
}
