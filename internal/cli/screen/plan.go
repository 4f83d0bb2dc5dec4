package screen

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const toRelease = "TO RELEASE"

// Plan writes a plan, and the Stale items that gates keep out of it.
func (s *Screen) Plan(r *report.Report, d *document.Plan) {
	rows := document.Rows(d.Items, document.PlanItem.Row)
	unconfirmed := len(report.Only(rows, isUnconfirmed))
	s.circumstances(r.Notes(), r.Gates)
	s.Line("Planned: %s, %d proven, %d unconfirmed (marked ?). Nothing is released.", Count(len(rows), "item"),
		len(rows)-unconfirmed, unconfirmed)
	s.rows(toRelease, d.ObservedAt, rows)
	isRefused := func(it *judge.Item) bool {
		_, isRefused := r.RefusedOf(it)
		return isRefused
	}
	s.items("NOT IN THE PLAN", r, report.Only(r.Pick(judge.Stale), isRefused))
	s.planLegend()
}

// Application writes what became of the items of a plan.
func (s *Screen) Application(r *report.Report, d *document.Application) {
	s.circumstances(r.Notes(), r.Gates)
	done, others := d.Rows(document.Released), d.Rows(document.NotReleased)
	s.Line("Plan of %s: %s. Released %d, already released %d, not released %d.", d.PlannedAt.Format(time.RFC3339),
		Count(len(d.Items), "item"), len(done), len(d.Rows(document.AlreadyReleased)), len(others))
	s.rows(released, d.ObservedAt, done)
	s.rows("NOT RELEASED", d.ObservedAt, others)
	s.planLegend()
}

// planLegend writes the legend without the wait for a confirmation, which a plan does not have.
func (s *Screen) planLegend() {
	s.hasUnconfirmed = false
	s.legend()
}
