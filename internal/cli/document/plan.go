package document

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
)

// Plan is the document of plan, and the file that apply reads.
type Plan struct {
	Header
	// Items are ordered by pool or reservation, then address. A reviewer may delete items, and must not edit any.
	Items []PlanItem `json:"items"`
}

// PlanItem is one allocation, or one reservation without an allocation, that apply may release.
type PlanItem struct {
	AllocationRow
	// Key is an allocation's; Reservation and ReservationUID are a reservation's, which has no pool.
	Key            string `json:"key,omitempty"`
	Reservation    string `json:"reservation,omitempty"`
	ReservationUID string `json:"reservationUID,omitempty"`
	// Evidence is as in explain. Its nodes are empty where the verdict rests on all nodes.
	Evidence Evidence `json:"evidence"`
	// Digest is over the other fields of the item, and the cluster and the time of the plan.
	Digest string `json:"digest"`
}

// Application is the document of apply.
type Application struct {
	Header
	Circumstances
	// PlannedAt is the time of the plan.
	PlannedAt time.Time `json:"plannedAt"`
	// Items are those of the plan, in its order, as they were judged last.
	Items []AppliedItem `json:"items"`
}

// AppliedItem is what became of an item of a plan. Refusal and detail say why an item is not released.
type AppliedItem struct {
	PlanItem
	Outcome Outcome `json:"outcome"`
}

// Outcome is what became of an item of a plan.
type Outcome string

const (
	Released        Outcome = "Released"
	AlreadyReleased Outcome = "AlreadyReleased" // nothing is recorded any more under the identity of the item
	NotReleased     Outcome = "NotReleased"
)

// OfApplication returns the document of apply.
func OfApplication(h Header, r *report.Report, p *Plan, items []AppliedItem) *Application {
	return &Application{Header: h, Circumstances: circumstances(r), PlannedAt: p.ObservedAt, Items: items}
}

// Rows returns the items with an outcome as rows of a table.
func (d *Application) Rows(of Outcome) []AllocationRow {
	picked := report.Only(d.Items, func(it AppliedItem) bool { return it.Outcome == of })
	return Rows(picked, func(it AppliedItem) AllocationRow { return it.Row() })
}

// Row returns the item as a row of a table, in which a reservation is in the place of a pool.
func (it PlanItem) Row() AllocationRow {
	row := it.AllocationRow
	row.Pool, row.IsReservation = it.Pool+it.Reservation, it.Reservation != ""
	return row
}
