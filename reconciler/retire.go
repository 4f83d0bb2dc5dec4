package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Retirement is what becomes of a pool that a person asked to retire.
type Retirement struct {
	Pool  *ippool.Pool // as it was read last
	State RetirementState
	// Against is why it is kept. Of a pool that would be retired it is what happens before: its stale items are released,
	// and it waits.
	Against []plan.Obstacle
	Detail  string // why its delete failed; "" if it did not
}

// RetirementState is what became of a Retirement.
type RetirementState string

const (
	PoolKept     RetirementState = "Kept"
	PoolWould    RetirementState = "WouldBeRetired" // of a dry run
	PoolRetired  RetirementState = "Retired"
	PoolNotThere RetirementState = "Absent" // it did not exist any more
)

// CanRetire reports whether nothing stands against a retirement but what it does first.
func CanRetire(against []plan.Obstacle) bool {
	return !slices.ContainsFunc(against, func(o plan.Obstacle) bool {
		return o.Kind != plan.ObstacleLeftover && o.Kind != plan.ObstacleRecent
	})
}

// PlanRetirement judges the retirement of pools on an assessment, each by its name and UID. It changes nothing.
func (r *Reconciler) PlanRetirement(a *findings.Assessment, pools []*ippool.Pool) []*Retirement {
	all := make([]*Retirement, 0, len(pools))
	common := plan.CommonGates(a.Judgement, r.Process.Known.State)
	for _, p := range pools {
		out := &Retirement{Pool: p, State: PoolWould}
		judgeRetirement(a, common, out)
		if p := a.Facts().PoolNamed(p.Ref()); out.State == PoolWould && CanRetire(out.Against) {
			if wait := plan.RetireAfter(a.Facts(), p, r.Options.ConfirmAfter); wait > 0 {
				out.Against = append(out.Against, plan.Obstacle{Kind: plan.ObstacleRecent, At: a.Observation.Now.Add(wait),
					Detail: fmt.Sprintf("it must stay so for %s, so that an ADD that began before has ended", wait)})
			}
		}
		all = append(all, out)
	}
	return all
}

// judgeRetirement judges one retirement again: it may be kept, or absent now.
func judgeRetirement(a *findings.Assessment, common []plan.Gate, out *Retirement) {
	now := a.Facts().PoolNamed(out.Pool.Ref())
	switch {
	case now == nil:
		out.State, out.Against = PoolNotThere, nil
		return
	case now.UID != out.Pool.UID:
		out.State, out.Detail = PoolKept, "it was deleted, and created again, since it was printed"
		return
	}
	out.Pool = now.Pool
	if out.Against = plan.AgainstRetirement(a, common, now); !CanRetire(out.Against) {
		out.State = PoolKept
	}
}

// Retire releases what is stale in pools that nothing stands against, waits, and deletes those that are empty then. The
// result is that of the releases. In a dry run it says what would happen. The error says that the cluster could not be
// read before anything was written.
func (r *Reconciler) Retire(ctx context.Context, pools []*ippool.Pool) (*Result, []*Retirement, error) {
	began := r.Clock.Now()
	checked, err := r.Check(ctx)
	if err != nil {
		return nil, nil, err
	}
	a := checked.Assessment
	all := r.PlanRetirement(a, pools)
	since := a.Observation.Now
	out, err := r.releaseLeftovers(ctx, checked, all)
	if err != nil || r.Options.DryRun {
		return out, all, err
	}
	for len(open(all)) > 0 {
		now, err := r.Check(ctx)
		if err != nil {
			Keep(all, err)
			break
		}
		a = now.Assessment
		wait := r.judgeAgain(a, all)
		left := max(wait-a.Observation.Now.Sub(since), wait-r.Clock.Since(began)) // by both clocks
		if left <= 0 {
			r.deletePools(ctx, a, open(all))
			break
		}
		r.progress("Waiting for ADDs that may be in progress, until %s", a.Observation.Now.Add(left).UTC().Format(timeOfDay))
		if !r.pause(ctx, min(left, recheckEvery)) {
			Keep(all, ctx.Err())
		}
	}
	r.DeclineRetirements(a, all)
	return out, all, nil
}

// DeclineRetirements ends what a person asked to retire and what is kept.
func (r *Reconciler) DeclineRetirements(a *findings.Assessment, all []*Retirement) {
	for _, x := range all {
		if x.State == PoolKept {
			r.emit(Kept{a.Observation.Now, x.Pool, x.Why()})
		}
	}
}

// CanBeRetired are the retirements that nothing stands against so far, and their pools.
func CanBeRetired(all []*Retirement) (can []*Retirement, pools []*ippool.Pool) {
	for _, x := range open(all) {
		can, pools = append(can, x), append(pools, x.Pool)
	}
	return can, pools
}

// WithoutOpen are the retirements that have ended, with others in place of those that had not.
func WithoutOpen(all, ended []*Retirement) []*Retirement {
	by := map[string]*Retirement{}
	for _, x := range ended {
		by[x.Pool.Ref()] = x
	}
	whole := slices.Clone(all)
	for i, x := range whole {
		if by[x.Pool.Ref()] != nil && x.State == PoolWould {
			whole[i] = by[x.Pool.Ref()]
		}
	}
	return whole
}

// judgeAgain judges the open retirements after the releases, and keeps the pools that something stands against. It
// returns for how long the others must have been so.
func (r *Reconciler) judgeAgain(a *findings.Assessment, all []*Retirement) (wait time.Duration) {
	common := plan.CommonGates(a.Judgement, r.Process.Known.State)
	for _, x := range open(all) {
		switch judgeRetirement(a, common, x); {
		case x.State != PoolWould:
		case len(x.Against) > 0: // a stale item was not released
			x.State = PoolKept
		default:
			wait = max(wait, plan.RetireAfter(a.Facts(), a.Facts().PoolNamed(x.Pool.Ref()), r.Options.ConfirmAfter))
		}
	}
	return wait
}

// Why is why the pool is kept, in a sentence.
func (x *Retirement) Why() string { return cmp.Or(x.Detail, plan.ObstacleText(x.Against)) }

// open are the retirements that nothing stands against so far.
func open(all []*Retirement) (rest []*Retirement) {
	for _, x := range all {
		if x.State == PoolWould {
			rest = append(rest, x)
		}
	}
	return rest
}

// Keep ends all open retirements: the pools are kept for an error, and no more happens before.
func Keep(all []*Retirement, why error) {
	for _, x := range open(all) {
		x.State, x.Against, x.Detail = PoolKept, nil, why.Error()
	}
}

// releaseLeftovers releases the Stale items of the open retirements, by the path of every release.
func (r *Reconciler) releaseLeftovers(
	ctx context.Context, checked *Result, all []*Retirement,
) (*Result, error) {
	isLeft := map[judge.ID]bool{}
	for _, x := range open(all) {
		for _, o := range x.Against {
			if o.Kind == plan.ObstacleLeftover {
				isLeft[o.Item.ID()] = true
			}
		}
	}
	if len(isLeft) == 0 {
		return checked, nil
	}
	only, agreed := *r, r.Options.Only
	only.Options.Only = func(it *judge.Item) bool { return isLeft[it.ID()] && (agreed == nil || agreed(it)) }
	return only.Run(ctx)
}

// deletePools deletes pools under whereabouts' Leases, after the second check.
func (r *Reconciler) deletePools(ctx context.Context, a *findings.Assessment, all []*Retirement) {
	rules := &retireRules{r: r, live: &liveFacts{r: r, first: a.Observation, known: r.Process.Known},
		of: map[string]*Retirement{}}
	var changes []*apply.Retirement
	for _, x := range all {
		rules.of[x.Pool.Ref()] = x
		changes = append(changes, apply.NewRetirement(x.Pool))
	}
	apply.Execute(ctx, r.applyDeps(rules.live), apply.Terms{Activity: "Retiring"}, rules, changes)
	r.Process.Known = rules.live.known
}

// retireRules judge retirements again, and record what becomes of them.
type retireRules struct {
	r    *Reconciler
	live *liveFacts
	of   map[string]*Retirement // by the pool's "namespace/name"
}

// Recheck judges everything again, since anybody may carry an address of the pools. Only an obstacle-free pool stands.
func (e *retireRules) Recheck(f *facts.Facts, todo []*apply.Retirement) apply.Checked[*apply.Retirement] {
	a := findings.Assess(judge.Judge(f, e.live.known, e.r.Options.Overrides))
	common := plan.CommonGates(a.Judgement, e.live.known.State)
	var stand, arrived []*apply.Retirement
	for _, c := range todo {
		x, now := e.of[c.Pool.Ref()], f.PoolNamed(c.Pool.Ref())
		var stored *ippool.Pool
		if now != nil {
			stored = now.Pool
		}
		switch c.Recheck(stored) {
		case apply.PoolArrived:
			arrived = append(arrived, c)
		case apply.PoolIsAbsent:
			x.State = PoolNotThere
		case apply.PoolIsOther:
			x.State, x.Detail = PoolKept, "it was deleted, and created again, in the meantime"
		case apply.StillThere:
			x.Pool, x.Against = stored, plan.AgainstRetirement(a, common, now)
			if f.Base().Restored != "" {
				x.Against = append(x.Against, plan.Obstacle{Kind: plan.ObstacleGate, Detail: "etcd was restored: " +
					f.Base().Restored})
			}
			switch err := c.Stand(stored); {
			case len(x.Against) > 0:
				x.State = PoolKept
			case err != nil:
				x.State, x.Detail = PoolKept, err.Error()
			default:
				stand = append(stand, c)
			}
		}
		if x.State == PoolKept {
			e.r.Log.Info("Not retired at the second check", "pool", c.Pool.Ref(), "obstacles", x.Why())
		}
	}
	return apply.CheckedRetirements(todo, stand, arrived)
}

// FollowUps is none.
func (e *retireRules) FollowUps(*facts.Facts, *apply.Retirement) []*apply.Retirement { return nil }

// GaveUp records why a pool could not be deleted.
func (e *retireRules) GaveUp(c *apply.Retirement, f apply.Failure) {
	x := e.of[c.Pool.Ref()]
	x.State, x.Detail = PoolKept, f.Err.Error()
	switch {
	case errors.Is(f.Err, apply.ErrLeaseForbidden):
		x.Detail = leaseForbiddenDetail(c.Pool.Namespace, f.Leases)
	case errors.Is(f.Err, apply.ErrLeaseBusy):
		x.Detail = fmt.Sprintf("ADDs and DELs held Lease %s in namespace %s all the time; run again",
			strings.Join(f.Leases, ", "), c.Pool.Namespace)
	}
	e.r.Log.Warn("Could not retire a pool", "pool", c.Pool.Ref(), "error", f.Err)
}

// Finished records the retirement of a pool.
func (e *retireRules) Finished(c *apply.Retirement) {
	x, now := e.of[c.Pool.Ref()], e.live.observation().Now
	x.State, x.Against, x.Detail = PoolRetired, nil, ""
	e.r.Log.Info("Retired a pool", "pool", c.Pool.Ref(), "range", c.Pool.RangeText, "uid", c.Pool.UID)
	e.r.emit(Retired{now, c.Pool, e.r.Because})
}
