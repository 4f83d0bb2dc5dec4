package document

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Judged is what allocations and reservations have in common.
type Judged struct {
	Verdict judge.Verdict `json:"verdict"`
	Reason  judge.Reason  `json:"reason"`
	Proven  bool          `json:"proven"`
	Message string        `json:"message"`
	// Rule is the id of the row of the verdict table that decided (docs/reference/verdicts.md).
	Rule string `json:"rule"`
	// Refusal is why something Stale is not released now, with a sentence; both are left
	// out where a pass would release it now, or has.
	Refusal reconciler.Refusal `json:"refusal,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	// ReleasableAt is when it will be released if nothing contradicts it; left out where
	// that is not known.
	ReleasableAt *time.Time `json:"releasableAt,omitempty"`
}

// AllocationRow is one allocation.
type AllocationRow struct {
	Pool        string `json:"pool"`
	IP          string `json:"ip"`
	PodRef      string `json:"podRef"`
	PodUID      string `json:"podUID"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
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
	PodRef      string `json:"podRef"`
	Judged
}

// row is an item as AllocationRow or ReservationRow, with more at the end of its message.
func row(r *report.Report, it *judge.Item, more string) any {
	d := OfItem(r, it)
	d.Message += more
	if d.IsReservation {
		return d.reservation(it)
	}
	return d
}

// OfItem is an allocation as JSON and text have it, or a reservation as text has it, with its name as the pool.
func OfItem(r *report.Report, it *judge.Item) AllocationRow {
	d := AllocationRow{
		Pool: it.Object(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(), IfName: it.IfName(), Node: it.Node(),
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
	if x, refused := r.RefusedOf(it); refused {
		d.Refusal, d.Detail, d.ReleasableAt = x.Gate.Why, x.Gate.Detail, report.When(x.At())
	}
	return d
}
