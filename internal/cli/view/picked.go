package view

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Picked is the part of a result that a filter picks.
type Picked struct {
	*findings.Assessment
	Restore *restore.Status // as in the result
	Filter  Filter
	// Gates are the gates against releases. Those of the whole cluster come first.
	Gates []Gate

	common   []plan.Gate // those against more than one item
	limits   Limits
	all      judge.Summary             // before the filter
	refused  map[judge.ID]plan.Refused // the Stale items that are not released
	released map[judge.ID]bool         // by a run
}

// PlannedResult returns the result of a pass that has judged and planned, and has not begun to write.
func PlannedResult(checked *reconciler.Result, p *plan.Plan) *reconciler.Result {
	return &reconciler.Result{Assessment: checked.Assessment, Restore: checked.Restore, Refused: p.Refused,
		CommonGates: p.CommonGates}
}

// Pick returns the part of a result that a filter picks.
func Pick(out *reconciler.Result, f Filter) *Picked {
	picked, j := *out.Assessment, *out.Judgement
	picked.Judgement = &j
	picked.Allocations = lists.Filter(out.Allocations, f.Item)
	picked.Reservations = lists.Filter(out.Reservations, f.Item)
	picked.Findings = lists.Filter(out.Findings, func(x findings.Finding) bool { return f.Finding(&x) })
	refused := lists.Filter(out.Refused, func(x plan.Refused) bool { return f.Item(x.Item) })
	common := lists.Filter(out.CommonGates, func(g plan.Gate) bool { return g.Pool == "" || f.Pool(g.Pool) })
	p := &Picked{Assessment: &picked, Restore: out.Restore, Filter: f, Gates: gatesOf(common, refused),
		common: common,
		limits: NewLimits(&reconciler.Result{Assessment: &picked, Restore: out.Restore}), all: out.Summary(),
		refused: map[judge.ID]plan.Refused{}, released: judge.IDs(out.Released)}
	for _, x := range refused {
		p.refused[x.ID()] = x
	}
	return p
}

// pools returns the picked pools.
func (p *Picked) pools() []*ippool.Pool {
	return lists.Filter(p.Observation.Pools, func(pool *ippool.Pool) bool { return p.Filter.Pool(pool.Ref()) })
}

// Items returns the allocations and then the reservations.
func (p *Picked) Items() []*judge.Item { return slices.Concat(p.Allocations, p.Reservations) }

// RefusedOf returns the gates against the release of an item. isRefused is false where no gate stands. A reservation
// that shares an allocation's verdict shares its gates.
func (p *Picked) RefusedOf(it *judge.Item) (x plan.Refused, isRefused bool) {
	if shared := it.SharesVerdictOf(); shared != nil {
		it = shared
	}
	x, isRefused = p.refused[it.ID()]
	return x, isRefused && x.Gate.Why != plan.DryRunRefusal
}

// When returns a time in UTC without fractions of a second, nil for zero.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
