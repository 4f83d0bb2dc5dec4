package document

import (
	"cmp"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Check is what check prints.
type Check struct {
	Header
	Circumstances
	// Filter is left out where everything was asked for.
	Filter  *Filter       `json:"filter,omitempty"`
	Summary judge.Summary `json:"summary"`
	Pools   []PoolRow     `json:"pools"`
	// Allocations are ordered by pool, then address; Reservations by name.
	Allocations  []AllocationRow  `json:"allocations"`
	Reservations []ReservationRow `json:"reservations"`
	Findings     []judge.Finding  `json:"findings"`
}

// Run is what run prints: what was judged, with the findings that are left, and what was done.
type Run struct {
	Check
	DryRun bool `json:"dryRun"`
	// Released and Failed are items as in allocations and reservations. Failed are the
	// Stale ones that are left, each with why at the end of its message.
	Released []any `json:"released"`
	Failed   []any `json:"failed"`
	// Repaired are findings that were written back, NotRepaired those that could not be.
	Repaired    []judge.Finding `json:"repaired"`
	NotRepaired []NotRepaired   `json:"notRepaired"`
	// Deletes and Patches are what would be sent to release something; of a run on a snapshot only.
	Deletes []string       `json:"deletes,omitempty"`
	Patches []report.Patch `json:"patches,omitempty"`
}

// NotRepaired is a finding that --repair did not repair.
type NotRepaired struct {
	judge.Finding
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
}

// Filter is what was asked for.
type Filter struct {
	Pools         []string        `json:"pools,omitempty"`
	PodNamespaces []string        `json:"podNamespaces,omitempty"`
	Nodes         []string        `json:"nodes,omitempty"`
	Verdicts      []judge.Verdict `json:"verdicts,omitempty"`
	Reasons       []string        `json:"reasons,omitempty"`
}

// PoolRow counts what a pool has, of what was asked for.
type PoolRow struct {
	Pool        string `json:"pool"`
	Range       string `json:"range"`
	Allocations int    `json:"allocations"`
	InUse       int    `json:"inUse"`
	Held        int    `json:"held"`
	Stale       int    `json:"stale"`
	Paused      bool   `json:"paused"`
}

// OfCheck is a report as check prints it.
func OfCheck(h Header, r *report.Report) *Check {
	d := &Check{
		Header: h, Circumstances: circumstances(r), Summary: r.Summary(), Pools: poolRows(r),
		Allocations:  make([]AllocationRow, 0, len(r.Allocations)),
		Reservations: make([]ReservationRow, 0, len(r.Reservations)),
		Findings:     append([]judge.Finding{}, r.Findings...),
	}
	if f := r.Filter; !f.IsZero() {
		d.Filter = &Filter{f.Pools, f.PodNamespaces, f.Nodes, f.Verdicts, f.Reasons}
	}
	for _, it := range r.Allocations {
		d.Allocations = append(d.Allocations, allocationRow(r, it))
	}
	for _, it := range r.Reservations {
		d.Reservations = append(d.Reservations, reservationRow(r, it))
	}
	return d
}

// OfRun is a report of a run as run prints it.
func OfRun(h Header, r *report.Report) *Run {
	d := &Run{Check: *OfCheck(h, r), DryRun: r.DryRun, Released: []any{}, Failed: []any{}, Repaired: append([]judge.Finding{}, r.Repaired...), NotRepaired: []NotRepaired{}}
	for _, it := range sorted(r.Released) {
		d.Released = append(d.Released, row(r, it, it.Message()))
	}
	for _, x := range r.Left {
		d.Failed = append(d.Failed, row(r, x.Item, x.Message()+"; not released: "+x.Detail))
	}
	for _, u := range r.Unrepaired {
		d.NotRepaired = append(d.NotRepaired, NotRepaired{u.Finding, u.Why, u.Detail})
	}
	if r.Requests != nil {
		d.Deletes, d.Patches = r.Requests.Deletes, r.Requests.Patches
	}
	return d
}

// sorted puts allocations first, each kind by place.
func sorted(items []*judge.Item) []*judge.Item {
	return slices.SortedStableFunc(slices.Values(items), func(a, b *judge.Item) int {
		if (a.Allocation == nil) != (b.Allocation == nil) {
			if a.Allocation != nil {
				return -1
			}
			return 1
		}
		return judge.ByPlace(a, b)
	})
}

func poolRows(r *report.Report) []PoolRow {
	rows, at := []PoolRow{}, map[string]int{}
	for _, p := range r.Observation.Pools {
		if r.Filter.Pool(p.Ref()) {
			at[p.Ref()] = len(rows)
			rows = append(rows, PoolRow{Pool: p.Ref(), Range: p.RangeText, Paused: p.Paused})
		}
	}
	for _, it := range r.Allocations {
		i, there := at[it.Pool.Ref()]
		if !there { // an earlier pass of the run released it, and its pool is gone since
			continue
		}
		row := &rows[i]
		row.Allocations++
		switch it.Verdict {
		case judge.InUse:
			row.InUse++
		case judge.Held:
			row.Held++
		case judge.Stale:
			row.Stale++
		}
	}
	slices.SortFunc(rows, func(a, b PoolRow) int { return cmp.Compare(a.Pool, b.Pool) })
	return rows
}
