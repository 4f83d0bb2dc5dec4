package document

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Judged has the fields that allocations and reservations share.
type Judged struct {
	Verdict judge.Verdict `json:"verdict"`
	Reason  judge.Reason  `json:"reason"`
	Proven  bool          `json:"proven"` // a Stale verdict that may be released at once
	Message string        `json:"message"`
	// Rule is the id of the row of the verdict table that decided (docs/reference/verdicts.md).
	Rule string `json:"rule"`
	// Refusal and Detail say why a Stale item is not released now; absent where a pass would release it now, or has.
	Refusal reconciler.Refusal `json:"refusal,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	// ReleasableAt is when the item will be released if every pass agrees; absent where that is unknown.
	ReleasableAt *time.Time `json:"releasableAt,omitempty"`
}

// AllocationRow is one allocation.
type AllocationRow struct {
	Pool        string `json:"pool"`
	IP          string `json:"ip"`
	PodRef      string `json:"podRef" text:"recorded pod"`
	PodUID      string `json:"podUID"`
	ContainerID string `json:"containerID" text:"container id"`
	IfName      string `json:"ifName" text:"interface"`
	Node        string `json:"node"`
	Sandbox     string `json:"sandbox"`
	Judged
	IsReservation bool `json:"-"`
}

// ReservationRow is one OverlappingRangeIPReservation.
type ReservationRow struct {
	Reservation string `json:"reservation"`
	IP          string `json:"ip"`
	Network     string `json:"network"`
	PodRef      string `json:"podRef" text:"recorded pod"`
	Judged
}

func row(r *report.Report, it *judge.Item, more string) any {
	d := OfItem(r, it)
	d.Message += more
	if d.IsReservation {
		return d.reservation(it)
	}
	return d
}

// OfItem returns the row of an item. The row of a reservation has its name in the field Pool.
func OfItem(r *report.Report, it *judge.Item) AllocationRow {
	d := AllocationRow{
		Pool: it.Object(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(), IfName: it.IfName(),
		Node:   it.Node(),
		Judged: judged(r, it), IsReservation: it.Allocation == nil,
	}
	if e := it.Evidence(); e != nil {
		d.Sandbox, d.PodUID = e.Sandbox.String(), e.SandboxUID
		if d.PodUID == "" && e.Pod != nil {
			d.PodUID = e.Pod.UID
		}
	}
	return d
}

func (d AllocationRow) reservation(it *judge.Item) ReservationRow {
	return ReservationRow{d.Pool, d.IP, it.Network(), d.PodRef, d.Judged}
}

func judged(r *report.Report, it *judge.Item) Judged {
	d := Judged{Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Message: it.Message(), Rule: it.RuleID()}
	if x, isRefused := r.RefusedOf(it); isRefused {
		gate := x.Main()
		d.Refusal, d.Detail, d.ReleasableAt = gate.Why, gate.Detail, report.When(x.At())
	}
	return d
}
