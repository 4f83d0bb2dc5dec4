package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Check is the document of check.
type Check struct {
	Header
	Circumstances
	// Filter is absent where the command was about everything.
	Filter  *Filter   `json:"filter,omitempty"`
	Summary Summary   `json:"summary"`
	Pools   []PoolRow `json:"pools"`
	// Allocations are ordered by pool, then address; Reservations by name.
	Allocations  []AllocationRow  `json:"allocations"`
	Reservations []ReservationRow `json:"reservations"`
	Findings     []Finding        `json:"findings"`
}

// Run is the document of run: the judgement, with the findings that were not repaired, and what the run did.
type Run struct {
	Check
	DryRun bool `json:"dryRun"`
	// Released and Failed are items as in allocations and reservations. Failed are the Stale items that were not released,
	// with the cause at the end of their messages.
	Released []any `json:"released"`
	Failed   []any `json:"failed"`
	// Repaired are the findings that were repaired, NotRepaired those that could not be.
	Repaired    []Finding     `json:"repaired"`
	NotRepaired []NotRepaired `json:"notRepaired"`
	*Requests                 // that a run would send; only for a snapshot
}

// PoolRow counts the picked allocations of a pool.
type PoolRow struct {
	Pool        string `json:"pool"`
	Range       string `json:"range"`
	Allocations int    `json:"allocations"`
	InUse       int    `json:"inUse"`
	Held        int    `json:"held"`
	Stale       int    `json:"stale"`
	Paused      bool   `json:"paused"`
}

// OfCheck returns the document of check.
func OfCheck(h Header, r *Picked) *Check {
	d := &Check{
		Header: h, Circumstances: circumstances(r), Summary: summaryOf(r), Pools: poolRows(r),
		Findings:     lists.Map(r.Findings, FindingOf),
		Allocations:  lists.Map(r.Allocations, func(it *judge.Item) AllocationRow { return OfItem(r, it) }),
		Reservations: lists.Map(r.Reservations, func(it *judge.Item) ReservationRow { return OfItem(r, it).reservation(it) }),
	}
	if !r.Filter.IsZero() {
		d.Filter = &r.Filter
	}
	return d
}

// OfRun returns the document of run.
func OfRun(h Header, r *Picked) *Run {
	return &Run{
		Check: *OfCheck(h, r), Requests: r.Requests, DryRun: r.DryRun, Repaired: lists.Map(r.Repaired, FindingOf),
		NotRepaired: lists.Map(r.Unrepaired, notRepaired),
		Released:    lists.Map(r.Released, func(it *judge.Item) any { return row(r, it, "") }),
		Failed:      lists.Map(r.Left, func(x reconciler.Refused) any { return row(r, x.Item, "; not released: "+x.Detail) }),
	}
}

func poolRows(r *Picked) []PoolRow {
	n := map[judge.Verdict]map[*ippool.Pool]int{judge.InUse: {}, judge.Held: {}, judge.Stale: {}}
	for _, it := range r.Allocations {
		n[it.Verdict][it.Pool]++
	}
	found := lists.Map(r.Pools(), func(p *ippool.Pool) PoolRow {
		inUse, held, stale := n[judge.InUse][p], n[judge.Held][p], n[judge.Stale][p]
		return PoolRow{p.Ref(), p.RangeText, inUse + held + stale, inUse, held, stale, p.Paused}
	})
	slices.SortFunc(found, func(a, b PoolRow) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// Recovery is the document of recover.
type Recovery struct {
	Header
	Circumstances
	Summary Summary `json:"summary"`
	// Writes are the allocations and reservations that recover wrote or would write.
	Writes   []WriteRow `json:"writes"`
	Findings []Finding  `json:"findings"`
}

// OfRecovery returns the document of recover.
func OfRecovery(h Header, out *reconciler.Result) *Recovery {
	r := PickRun(out, false, Filter{})
	return &Recovery{h, circumstances(r), summaryOf(r), Writes(out), lists.Map(out.Findings, FindingOf)}
}

// JudgedRow has the fields that allocations and reservations share.
type JudgedRow struct {
	Verdict judge.Verdict `json:"verdict"`
	Reason  judge.Reason  `json:"reason"`
	Proven  bool          `json:"proven"` // a Stale verdict that may be released at once
	Message string        `json:"message"`
	// Rule is the id of the row of the verdict table that decided (docs/reference/verdicts.md).
	Rule string `json:"rule" text:"-"`
	// Refusal and Detail say why a Stale item is not released now; absent where a pass would release it now, or has.
	Refusal reconciler.Refusal `json:"refusal,omitempty" text:"-"`
	Detail  string             `json:"detail,omitempty" text:"-"`
	// ReleasableAt is when the item will be released if every pass agrees; absent where that is unknown.
	ReleasableAt *time.Time `json:"releasableAt,omitempty" text:"-"`
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
	IsReservation bool `json:"-"`
}

// ReservationRow is one OverlappingRangeIPReservation.
type ReservationRow struct {
	Reservation string `json:"reservation"`
	IP          string `json:"ip"`
	Network     string `json:"network"`
	PodRef      string `json:"podRef" text:"recorded pod"`
	JudgedRow
}

func row(r *Picked, it *judge.Item, more string) any {
	d := OfItem(r, it)
	d.Message += more
	if d.IsReservation {
		return d.reservation(it)
	}
	return d
}

// OfItem returns the row of an item. The row of a reservation has its name in the field Pool.
func OfItem(r *Picked, it *judge.Item) AllocationRow {
	d := AllocationRow{
		Pool: it.Object(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(), IfName: it.IfName(),
		Node: it.Node(), IsReservation: it.Allocation == nil, JudgedRow: JudgedRow{Verdict: it.Verdict, Reason: it.Reason,
			Proven: it.Proven, Message: it.Message(), Rule: it.RuleID()},
	}
	if x, isRefused := r.RefusedOf(it); isRefused {
		gate := x.Main()
		d.Refusal, d.Detail, d.ReleasableAt = gate.Why, gate.Detail, When(x.At())
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
	return ReservationRow{d.Pool, d.IP, it.Network(), d.PodRef, d.JudgedRow}
}
