package view

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// NodeQuarantine is how long a Node object must be missing at least before verdicts rest on that.
const NodeQuarantine = memory.NodeQuarantine

// JudgedRow has the fields that allocations and reservations share.
type JudgedRow struct {
	Verdict judge.Verdict `json:"verdict"`
	Reason  judge.Reason  `json:"reason"`
	Proven  bool          `json:"proven"` // a Stale verdict that may be released at once
	Message string        `json:"message"`
	// Rule is the id of the row of the verdict table that decided (docs/reference/verdicts.md).
	Rule string `json:"rule" text:"-"`
	// Refusal and Detail say why a Stale item is not released now; absent where a pass would release it now, or has.
	Refusal plan.Refusal `json:"refusal,omitempty" text:"-"`
	Detail  string       `json:"detail,omitempty" text:"-"`
	// ReleasableAt is when the item will be released if every pass agrees; absent where that is unknown.
	ReleasableAt *time.Time `json:"releasableAt,omitempty" text:"-"`
}

// IsStale reports whether the verdict is Stale.
func (d JudgedRow) IsStale() bool { return d.Verdict == judge.Stale }

// IsUnconfirmed reports whether a Stale verdict must stand for a time before it is acted on.
func (d JudgedRow) IsUnconfirmed() bool { return d.IsStale() && !d.Proven }

// IsOfMissingNode reports whether the verdict rests on a Node object that is missing.
func (d JudgedRow) IsOfMissingNode() bool { return d.Reason == judge.NodeMissingReason }

// CanRelease reports whether no gate stands against an item, or only gates that open by themselves.
func (d AllocationRow) CanRelease() bool { return d.Refusal == "" || d.ReleasableAt != nil }

// OwnRefusal returns the detail of a refusal that is of an item alone, "" for one that Circumstances have.
func (d JudgedRow) OwnRefusal() string {
	if why := d.Refusal; why == plan.Changed || why == plan.LeaseBusy || why == plan.WriteFailed {
		return d.Detail
	}
	return ""
}

// AllocationRow is one allocation. explain has the fields with the tag "-" in the title, the gates and the evidence.
type AllocationRow struct {
	Pool        string `json:"pool" text:"-"`
	IP          string `json:"ip" text:"-"`
	PodRef      string `json:"podRef" text:"recorded pod"`
	PodUID      string `json:"podUID" text:"-"`
	ContainerID string `json:"containerID" text:"container id"`
	IfName      string `json:"ifName" text:"interface"`
	Node        string `json:"node" text:"-"`
	Sandbox     string `json:"sandbox" text:"-"`
	JudgedRow
	// IsReservation is true for the row of a reservation, which has its name in the field Pool.
	IsReservation bool `json:"-"`
	// IsShared is true for a reservation that is in its allocation's row.
	IsShared bool `json:"-"`
	// IsAsserted is true where the verdict rests on an assertion of --override.
	IsAsserted bool `json:"-"`
}

// ReservationRow is one OverlappingRangeIPReservation.
type ReservationRow struct {
	Reservation string `json:"reservation"`
	IP          string `json:"ip"`
	Network     string `json:"network"`
	PodRef      string `json:"podRef" text:"recorded pod"`
	JudgedRow
}

// HasRow reports whether an item has a row of its own in tables. A reservation with an allocation is in its
// allocation's row.
func HasRow(it *judge.Item) bool { return it.Allocation != nil || len(it.Related()) == 0 }

// NewRow returns the row of an item, without the gates against its release.
func NewRow(it *judge.Item) AllocationRow {
	d := AllocationRow{
		Pool: it.Object(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(), IfName: it.IfName(),
		Node: it.Node(), JudgedRow: JudgedRow{Verdict: it.Verdict, Reason: it.Reason,
			Proven: it.Proven, Message: it.Message(), Rule: it.RuleID()},
		IsReservation: it.Allocation == nil, IsShared: !HasRow(it),
		IsAsserted: it.IsOverridden(),
	}
	if e := it.Evidence(); e != nil {
		d.Sandbox, d.PodUID = e.Sandbox.String(), e.SandboxUID
		if d.PodUID == "" && e.Pod != nil {
			d.PodUID = e.Pod.UID
		}
	}
	return d
}

// Row returns the row of an item.
func (p *Picked) Row(it *judge.Item) AllocationRow {
	d := NewRow(it)
	if x, isRefused := p.RefusedOf(it); isRefused {
		gate := x.Main()
		d.Refusal, d.Detail, d.ReleasableAt = gate.Why, gate.Detail, When(x.At())
	}
	return d
}

func (p *Picked) reservation(it *judge.Item) ReservationRow {
	d := p.Row(it)
	return ReservationRow{d.Pool, d.IP, it.Network(), d.PodRef, d.JudgedRow}
}
