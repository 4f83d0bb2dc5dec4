package reconciler

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

const repairWriteFor = 700 * time.Millisecond // for which repairs begin under a hold, so that ADDs wait a second

// repairOutcome is what became of the repairs of a pass.
type repairOutcome struct {
	repaired   []findings.Finding
	unrepaired []plan.Unrepaired
	remaining  int       // see Result.ToRepair
	next       time.Time // when the next finding is due; zero for none
}

// repair repairs the findings that are due.
func (r *Reconciler) repair(ctx context.Context, j *findings.Assessment) repairOutcome {
	p := r.planRepairs(j)
	r.Process.repairs = p.Found
	changes := make([]*apply.Repair, 0, len(p.Due))
	for _, due := range p.Due {
		c := apply.NewRepair(due.Finding)
		c.IsDue, c.HasNoPod, c.IsWatched = due.IsDue, due.HasNoPod, j.Observation.Watched
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, allocationsFirst)
	live := &liveFacts{r: r, first: j.Observation, known: r.Process.Known}
	rules := &repairRules{r, live, repairOutcome{unrepaired: p.Refused, remaining: p.Total, next: p.Next}}
	terms := apply.Terms{Activity: "Repairing", WriteFor: repairWriteFor}
	apply.Execute(ctx, r.applyDeps(live), terms, rules, changes)
	r.Process.Known = live.known
	return rules.out
}

// planRepairs picks the findings that may be repaired now. It changes nothing.
func (r *Reconciler) planRepairs(j *findings.Assessment) *plan.Repairs {
	return plan.MakeRepairs(j, r.Process.Known.State, r.Process.repairs, r.Process.repairCounts, r.Options)
}

// repairRules find the findings of repairs again, and record what becomes of them.
type repairRules struct {
	r    *Reconciler
	live *liveFacts
	out  repairOutcome
}

// Recheck returns the repairs whose findings are found again, as they are found now, and those that an earlier write
// has made.
func (e *repairRules) Recheck(f *facts.Facts, todo []*apply.Repair) apply.Checked[*apply.Repair] {
	var stand, arrived, open []*apply.Repair
	for _, c := range todo {
		if c.HasArrived(f) {
			arrived = append(arrived, c)
		} else {
			open = append(open, c)
		}
	}
	switch o := f.Base(); {
	case o.Restored != "":
		e.gaveUp(open, fmt.Errorf("%w: etcd was restored (%s), and earlier observations prove nothing",
			errPreconditions, o.Restored))
	case o.Paused:
		e.gaveUp(open, errAllPaused)
	default:
		stand = e.findAgain(f, open)
	}
	return apply.CheckedRepairs(todo, stand, arrived)
}

func (e *repairRules) findAgain(f *facts.Facts, todo []*apply.Repair) (stand []*apply.Repair) {
	asked := make(map[string]*apply.Repair, len(todo))
	var entries, reservations []netip.Addr
	for _, c := range todo {
		asked[plan.RepairKey(c.Finding)] = c
		if c.Finding.Repair.Key != "" {
			entries = append(entries, c.Finding.Repair.Address)
		} else {
			reservations = append(reservations, c.Finding.Repair.Address)
		}
	}
	j := judge.JudgeAt(f, e.live.known, e.r.Options.Overrides, slices.Concat(entries, reservations))
	found := findings.At(j, entries, reservations)
	for i := range found {
		again := &found[i]
		if again.Repair == nil {
			continue
		}
		c := asked[plan.RepairKey(again)]
		switch {
		case c == nil, !c.IsDue && !again.Repair.IsFenced:
		case again.Repair.Pool.Paused:
			e.gaveUp([]*apply.Repair{c}, fmt.Errorf("%w by the annotation %s of pool %s",
				errPaused, ippool.PausedAnnotation, again.Repair.Pool.Ref()))
		default:
			c.Recheck(again)
			stand = append(stand, c)
		}
	}
	return stand
}

// FollowUps is the repair that creates the reservation of an allocation that was written, if it needs one. An earlier
// write may be found when nothing may be written any more.
func (e *repairRules) FollowUps(f *facts.Facts, c *apply.Repair) []*apply.Repair {
	p := f.PoolNamed(c.Finding.Repair.Pool.Ref())
	if o := f.Base(); o.Restored != "" || o.Paused || p == nil || p.Paused {
		return nil
	}
	return c.FollowUp(f)
}

// GaveUp records why a finding is not repaired.
func (e *repairRules) GaveUp(c *apply.Repair, why apply.Failure) {
	f, err := c.Finding, why.Err
	e.r.Log.Warn("Could not repair a finding", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
	e.out.unrepaired = append(e.out.unrepaired, plan.Unrepaired{Finding: *f, Why: refusalOf(err), Detail: err.Error()})
}

func (e *repairRules) gaveUp(changes []*apply.Repair, err error) {
	for _, c := range changes {
		e.GaveUp(c, apply.Failure{Err: err})
	}
}

// Finished records the repair of a finding.
func (e *repairRules) Finished(c *apply.Repair) {
	f, now := c.Finding, e.live.observation().Now
	e.r.Log.Info("Repaired a finding", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods,
		"podRef", f.Repair.PodRef, "containerID", f.Repair.ContainerID)
	e.r.emit(Repaired{now, f})
	e.out.repaired = append(e.out.repaired, *f)
	if !c.IsFollowUp {
		e.out.remaining--
	}
	if c.HasNoPod {
		e.r.Process.repairCounts = e.r.Process.repairCounts.With(now, f.Repair)
	}
}

// allocationsFirst sorts repairs: a reservation matters only to pools with an overlapping range.
func allocationsFirst(a, b *apply.Repair) int {
	return min(len(b.Finding.Repair.Key), 1) - min(len(a.Finding.Repair.Key), 1)
}
