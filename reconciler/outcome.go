package reconciler

import (
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Outcome is what became of a change, or a pause that began or ended: one of the types below. Its time is that of the
// observation that it rests on, by the API server's clock.
type Outcome interface{ isOutcome() }

// Released is the release of an item.
type Released struct {
	Time         time.Time
	Item         *judge.Item
	Reservations []*ippool.Reservation // deleted for its allocation
	Because      string                // the person's sentence for a release by hand
}

// Repaired is the repair of a finding.
type Repaired struct {
	Time    time.Time
	Finding *findings.Finding
}

// Declined is an item that a person asked to release and that is not released.
type Declined struct {
	Time time.Time
	Item *judge.Item
	Gate plan.Gate // zero where the verdict does not allow a release
}

// PauseChanged is a pause that this process did not observe before, or that has ended.
type PauseChanged struct {
	Time     time.Time
	Pool     string // as "namespace/name"; "" for everything
	Detail   string // a sentence
	HasEnded bool
}

// Retired is the delete of an empty pool.
type Retired struct {
	Time    time.Time
	Pool    *ippool.Pool // as it was deleted
	Because string
}

// Kept is a pool that a person asked to retire and that is not deleted.
type Kept struct {
	Time   time.Time
	Pool   *ippool.Pool
	Detail string // a sentence
}

func (Released) isOutcome()     {}
func (Retired) isOutcome()      {}
func (Kept) isOutcome()         {}
func (Repaired) isOutcome()     {}
func (Declined) isOutcome()     {}
func (PauseChanged) isOutcome() {}

// emit hands over an outcome. A dry run has none.
func (r *Reconciler) emit(o Outcome) {
	if r.OnOutcome != nil && !r.Options.DryRun {
		r.OnOutcome(o)
	}
}

// Decline ends what a person asked to release and what the result has not released.
func (r *Reconciler) Decline(out *Result) {
	gates, isReleased := map[judge.ID]plan.Gate{}, judge.IDs(out.Released)
	for _, x := range out.Refused {
		gates[x.ID()] = x.Gate
	}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		if r.Options.ByHand && r.Options.IsInScope(it) && !isReleased[it.ID()] && it.SharesVerdictOf() == nil {
			r.emit(Declined{out.Observation.Now, it, gates[it.ID()]})
		}
	}
}

// comparePauses compares the pauses of a pass with those of the pass before.
func (r *Reconciler) comparePauses(o *facts.Observation, gates []plan.Gate) {
	before, now := r.Process.pauses, map[string]string{}
	for _, g := range gates {
		if g.Why == plan.Paused {
			now[g.Pool] = g.Detail
		}
	}
	r.Process.pauses = now
	compare := func(in, others map[string]string, hasEnded bool) {
		for _, pool := range slices.Sorted(maps.Keys(in)) {
			if _, isKnown := others[pool]; !isKnown {
				r.emit(PauseChanged{o.Now, pool, in[pool], hasEnded})
			}
		}
	}
	compare(now, before, false)
	compare(before, now, true)
}
