package view

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// RunReport is the document of run: the judgement, with the findings that were not repaired, and what the run did.
type RunReport struct {
	CheckReport
	DryRun bool `json:"dryRun"`
	// Released and Failed are items as in allocations and reservations. Failed are the Stale items that were not released,
	// with the cause at the end of their messages.
	Released []any `json:"released"`
	Failed   []any `json:"failed"`
	// Repaired are the findings that were repaired, NotRepaired those that could not be.
	Repaired    []Finding     `json:"repaired"`
	NotRepaired []NotRepaired `json:"notRepaired"`
	*Requests                 // that a run would send; only for a snapshot
	// Retirements are the pools that a plan deletes; absent without such.
	Retirements []RetiredPool `json:"retirements,omitempty"`

	// ReleasedRows and FailedRows are the rows of Released and Failed.
	ReleasedRows []AllocationRow `json:"-"`
	FailedRows   []AllocationRow `json:"-"`
}

// NewRunReport returns the document of run.
func NewRunReport(out *reconciler.Result, isDryRun bool, f Filter) *RunReport {
	p := Pick(out, f)
	if !isDryRun {
		p.Findings = withoutRepaired(p.Findings, out)
	}
	released := lists.Filter(out.Released, f.Item)
	slices.SortStableFunc(released, judge.ByPlace)
	failed := lists.Filter(out.Refused, func(x plan.Refused) bool { return f.Item(x.Item) })
	slices.SortStableFunc(failed, func(a, b plan.Refused) int { return judge.ByPlace(a.Item, b.Item) })
	d := &RunReport{
		CheckReport: *p.CheckReport(), DryRun: isDryRun,
		Released: lists.Map(released, func(it *judge.Item) any { return p.printed(it, "") }),
		Failed: lists.Map(failed, func(x plan.Refused) any {
			return p.printed(x.Item, "; not released: "+x.Detail)
		}),
		Repaired: lists.Map(out.Repaired, NewFinding), NotRepaired: lists.Map(out.Unrepaired, notRepaired),
		ReleasedRows: lists.Map(released, p.Row),
		FailedRows:   lists.Map(failed, func(x plan.Refused) AllocationRow { return p.Row(x.Item) }),
	}
	d.Kind = KindRun
	return d
}

func withoutRepaired(found []findings.Finding, out *reconciler.Result) []findings.Finding {
	return lists.Filter(found, func(f findings.Finding) bool { return !slices.ContainsFunc(out.Repaired, f.Is) })
}

// printed is an item as in allocations or reservations, with more at the end of its message.
func (p *Picked) printed(it *judge.Item, more string) any {
	if it.Allocation == nil {
		d := p.reservation(it)
		d.Message += more
		return d
	}
	d := p.Row(it)
	d.Message += more
	return d
}

// Full returns the document with its lists of allocations and reservations.
func (d *RunReport) Full() *RunReport {
	full := *d
	full.CheckReport = *d.CheckReport.Full()
	return &full
}

// Releasable returns what a run that was tried out releases, now or once its verdict is confirmed.
func (d *RunReport) Releasable() []AllocationRow {
	return lists.Filter(d.FailedRows, AllocationRow.CanRelease)
}

// Addresses returns what -o name prints of a run: the addresses that it released, or that a run without isDryRun would
// release now or once their verdicts are confirmed.
func (d *RunReport) Addresses(isDryRun bool) []string {
	rows := d.ReleasedRows
	if isDryRun {
		rows = slices.Concat(rows, d.Releasable())
	}
	return addresses(lists.Map(rows, func(r AllocationRow) string { return r.IP }))
}
