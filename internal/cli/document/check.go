package document

import (
	"cmp"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Check is the document of check.
type Check struct {
	Header
	Circumstances
	// Filter is absent where the command was about everything.
	Filter  *report.Filter `json:"filter,omitempty"`
	Summary judge.Summary  `json:"summary"`
	Pools   []PoolRow      `json:"pools"`
	// Allocations are ordered by pool, then address; Reservations by name.
	Allocations  []AllocationRow  `json:"allocations"`
	Reservations []ReservationRow `json:"reservations"`
	Findings     []judge.Finding  `json:"findings"`
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
	Repaired    []judge.Finding `json:"repaired"`
	NotRepaired []NotRepaired   `json:"notRepaired"`
	// Deletes and Patches are the requests that a run would send; only for a snapshot.
	Deletes []string       `json:"deletes,omitempty"`
	Patches []report.Patch `json:"patches,omitempty"`
}

// NotRepaired is a finding that --repair did not repair.
type NotRepaired struct {
	judge.Finding
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
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
func OfCheck(h Header, r *report.Report) *Check {
	d := &Check{
		Header: h, Circumstances: circumstances(r), Summary: r.Summary(), Pools: poolRows(r), Findings: r.Findings,
		Allocations:  Rows(r.Allocations, func(it *judge.Item) AllocationRow { return OfItem(r, it) }),
		Reservations: Rows(r.Reservations, func(it *judge.Item) ReservationRow { return OfItem(r, it).reservation(it) }),
	}
	if !r.Filter.IsZero() {
		d.Filter = &r.Filter
	}
	return d
}

// OfRun returns the document of run.
func OfRun(h Header, r *report.Report) *Run {
	d := &Run{
		Check: *OfCheck(h, r), DryRun: r.DryRun, Repaired: List(r.Repaired),
		Released: Rows(r.Released, func(it *judge.Item) any { return row(r, it, "") }),
		Failed:   Rows(r.Left, func(x reconciler.Refused) any { return row(r, x.Item, "; not released: "+x.Detail) }),
		NotRepaired: Rows(r.Unrepaired, func(u reconciler.Unrepaired) NotRepaired {
			return NotRepaired{u.Finding, u.Why, u.Detail}
		}),
	}
	if r.Requests != nil {
		d.Deletes, d.Patches = r.Requests.Deletes, r.Requests.Patches
	}
	return d
}

func poolRows(r *report.Report) []PoolRow {
	counts := map[string]map[judge.Verdict]int{}
	for _, it := range r.Allocations {
		if counts[it.Object()] == nil {
			counts[it.Object()] = map[judge.Verdict]int{}
		}
		counts[it.Object()][it.Verdict]++
	}
	found := Rows(r.Pools(), func(p *ippool.Pool) PoolRow {
		n := counts[p.Ref()]
		inUse, held, stale := n[judge.InUse], n[judge.Held], n[judge.Stale]
		return PoolRow{p.Ref(), p.RangeText, inUse + held + stale, inUse, held, stale, p.Paused}
	})
	slices.SortFunc(found, func(a, b PoolRow) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// Recovery is the document of recover.
type Recovery struct {
	Header
	Circumstances
	Summary judge.Summary `json:"summary"`
	// Writes are the allocations and reservations that recover wrote or would write.
	Writes   []reconciler.WriteRow `json:"writes"`
	Findings []judge.Finding       `json:"findings"`
}

// OfRecovery returns the document of recover.
func OfRecovery(h Header, out *reconciler.Result) *Recovery {
	r := report.OfRun(out, false, report.Filter{})
	return &Recovery{h, circumstances(r), r.Summary(), out.Writes(), List(out.Findings)}
}
