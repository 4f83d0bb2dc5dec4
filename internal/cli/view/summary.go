package view

import (
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Totals are the counts of a document.
type Totals struct {
	Summary Summary `json:"summary"`
	// All is the summary of everything, where a filter picks a part; nil otherwise.
	All *Summary `json:"-"`
	// UnknownKinds are the picked kinds of findings of which there may be more than were found.
	UnknownKinds []string `json:"-"`
}

// Summary has the counts of a judgement. InUse, Held and Stale are of allocations.
type Summary struct {
	Pools        int `json:"pools"`
	Allocations  int `json:"allocations"`
	InUse        int `json:"inUse"`
	Held         int `json:"held"`
	Stale        int `json:"stale"`
	Reservations int `json:"reservations"`
	// Lone are the reservations without an allocation. All others share the verdict of their allocation.
	Lone     Lone `json:"reservationsWithoutAllocation"`
	Findings int  `json:"findings"`
	// Restore is set while releases are paused because etcd was restored.
	Restore *RestoreRow `json:"restore,omitempty"`
}

// Lone counts reservations without an allocation.
type Lone struct {
	InUse int `json:"inUse"`
	Held  int `json:"held"`
	Stale int `json:"stale"`
}

// RestoreRow is what a restore of etcd still waits for.
type RestoreRow struct {
	ID       string   `json:"id" text:"restore"`
	Restored string   `json:"restored" text:"detected"` // RFC 3339
	Why      string   `json:"why"`
	Awaiting []string `json:"awaiting" text:"waits for"` // nodes
}

func (p *Picked) totals() Totals {
	t := Totals{Summary: newSummary(p.Summary()),
		UnknownKinds: texts(lists.Filter(findings.UnknownKinds(p.Observation), p.Filter.kind))}
	t.Summary.Pools = len(p.pools())
	if !p.Restore.Complete() {
		t.Summary.Restore = NewRestoreRow(p.Restore)
	}
	if !p.Filter.IsZero() {
		all := newSummary(p.all)
		t.All = &all
	}
	return t
}

func newSummary(s judge.Summary) Summary {
	return Summary{Pools: s.Pools, Allocations: s.Allocations, InUse: s.InUse, Held: s.Held, Stale: s.Stale,
		Reservations: s.Reservations, Lone: Lone{s.Lone.InUse, s.Lone.Held, s.Lone.Stale}, Findings: s.Findings}
}

// NewRestoreRow is the row of a restore of etcd.
func NewRestoreRow(s *restore.Status) *RestoreRow {
	return &RestoreRow{ID: s.ID, Restored: s.Date(), Why: s.Why, Awaiting: lists.Clone(s.Awaiting)}
}
