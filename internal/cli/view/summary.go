package view

import (
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

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
	Restored string   `json:"restored"` // RFC 3339
	Why      string   `json:"why"`
	Awaiting []string `json:"awaiting" text:"waits for"` // nodes
}

func summaryOf(r *Picked) Summary {
	s := r.Summary()
	d := Summary{Pools: s.Pools, Allocations: s.Allocations, InUse: s.InUse, Held: s.Held, Stale: s.Stale,
		Reservations: s.Reservations, Lone: Lone{s.Lone.InUse, s.Lone.Held, s.Lone.Stale}, Findings: s.Findings}
	if !r.Restore.Complete() {
		d.Restore = RestoreOf(r.Restore)
	}
	return d
}

// RestoreOf is the row of a restore of etcd.
func RestoreOf(s *judge.RestoreState) *RestoreRow {
	return &RestoreRow{Restored: s.Date(), Why: s.Why, Awaiting: lists.Clone(s.Awaiting)}
}
