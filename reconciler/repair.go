package reconciler

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// repairAfter is how long a finding must stand, found twice, before it is repaired: an ADD in progress causes the
	// same finding for a moment. Behind the fence no ADD is in progress.
	repairAfter    = time.Minute
	repairWriteFor = 700 * time.Millisecond // for which repairs begin under a hold, so that ADDs wait a second
)

// Unrepaired is a finding that was not repaired.
type Unrepaired struct {
	findings.Finding
	Why    Refusal
	Detail string // a sentence
}

func (u Unrepaired) String() string {
	return fmt.Sprintf("%s of %s in %s: %s", u.Kind, u.IP, u.Pool, u.Detail)
}

// repairOutcome is what became of the repairs of a pass.
type repairOutcome struct {
	repaired   []findings.Finding
	unrepaired []Unrepaired
	remaining  int       // see Result.ToRepair
	next       time.Time // when the next finding is due; zero for none
}

// repair repairs the findings that are due.
func (r *Reconciler) repair(ctx context.Context, j *findings.Assessment) repairOutcome {
	p := r.planRepairs(j)
	slices.SortStableFunc(p.due, allocationsFirst)
	r.Process.repairs = p.firstFound
	live := &liveIndex{r: r, first: j.Observation, known: r.Process.Known}
	rules := &repairRules{r, live, repairOutcome{unrepaired: p.refused, remaining: p.total, next: p.next}}
	terms := apply.Terms{Activity: "Repairing", WriteFor: repairWriteFor}
	apply.Execute(ctx, r.applyDeps(live), terms, rules, p.due)
	r.Process.Known = live.known
	return rules.out
}

// RepairKey identifies what a finding's repair writes, across passes. The finding must have one.
func RepairKey(f *findings.Finding) string {
	w := f.Repair
	was := ""
	if w.Previous != nil {
		was = w.Previous.ContainerID
	}
	return fmt.Sprint(f.Kind, f.Pool, f.IP, w.PodRef, w.ContainerID, " ", was)
}

// repairRules find the findings of repairs again, and record what becomes of them.
type repairRules struct {
	r    *Reconciler
	live *liveIndex
	out  repairOutcome
}

// Recheck returns the repairs whose findings are found again, as they are found now.
func (e *repairRules) Recheck(x *facts.Facts, todo []*apply.Repair) apply.Checked[*apply.Repair] {
	var stand []*apply.Repair
	switch o := x.Base(); {
	case o.Restored != "":
		e.gaveUp(todo, fmt.Errorf("%w: etcd was restored (%s), and earlier observations prove nothing",
			errPreconditions, o.Restored))
	case o.Paused:
		e.gaveUp(todo, errAllPaused)
	default:
		stand = e.findAgain(x, todo)
	}
	return apply.CheckedRepairs(todo, stand)
}

func (e *repairRules) findAgain(x *facts.Facts, todo []*apply.Repair) (stand []*apply.Repair) {
	asked := make(map[string]*apply.Repair, len(todo))
	var entries, reservations []netip.Addr
	for _, c := range todo {
		asked[RepairKey(c.Finding)] = c
		if c.Finding.Repair.Key != "" {
			entries = append(entries, c.Finding.Repair.Address)
		} else {
			reservations = append(reservations, c.Finding.Repair.Address)
		}
	}
	j := judge.JudgeAt(x, e.live.known, e.r.Options.Overrides, slices.Concat(entries, reservations))
	found := findings.FindingsAt(j, entries, reservations)
	for i := range found {
		f := &found[i]
		if f.Repair == nil {
			continue
		}
		c := asked[RepairKey(f)]
		switch {
		case c == nil, !c.IsDue && !f.Repair.IsFenced:
		case f.Repair.Pool.Paused:
			e.gaveUp([]*apply.Repair{c}, fmt.Errorf("%w by the annotation %s of pool %s",
				errPaused, ippool.PausedAnnotation, f.Repair.Pool.Ref()))
		default:
			c.Recheck(f)
			stand = append(stand, c)
		}
	}
	return stand
}

// FollowUps is the repair that creates the reservation of an allocation that was written, if it needs one.
func (e *repairRules) FollowUps(x *facts.Facts, c *apply.Repair) []*apply.Repair {
	return c.FollowUp(x)
}

// GaveUp records why a finding is not repaired.
func (e *repairRules) GaveUp(c *apply.Repair, _ []string, err error) {
	f := c.Finding
	e.r.Log.Warn("Could not repair a finding", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
	e.out.unrepaired = append(e.out.unrepaired, Unrepaired{*f, refusalOf(err), err.Error()})
}

func (e *repairRules) gaveUp(changes []*apply.Repair, err error) {
	for _, c := range changes {
		e.GaveUp(c, nil, err)
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
		e.r.noteRepair(now, f.Repair)
	}
}

// allocationsFirst sorts repairs: a reservation matters only to pools with an overlapping range.
func allocationsFirst(a, b *apply.Repair) int {
	return min(len(b.Finding.Repair.Key), 1) - min(len(a.Finding.Repair.Key), 1)
}

// repairPlan is which findings of a judgement are repaired now.
type repairPlan struct {
	due        []*apply.Repair
	refused    []Unrepaired         // by the breaker
	total      int                  // findings that --repair would repair and that are not paused
	firstFound map[string]time.Time // of those that wait
	next       time.Time            // when the next one is due; zero for none
}

// planRepairs picks the findings that may be repaired now. It changes nothing.
func (r *Reconciler) planRepairs(j *findings.Assessment) *repairPlan {
	p := r.dueRepairs(j)
	if r.Options.AllowMassRepair {
		return p
	}
	var refused []*apply.Repair
	p.due, refused, p.refused = r.limitRepairs(j, p.due)
	for _, c := range refused {
		if c.IsDue {
			p.firstFound[RepairKey(c.Finding)] = c.First // it need not stand for a minute again
		}
	}
	return p
}

// dueRepairs picks the findings that have stood for long enough.
func (r *Reconciler) dueRepairs(j *findings.Assessment) *repairPlan {
	o, p := j.Observation, &repairPlan{firstFound: map[string]time.Time{}}
	for i := range j.Findings {
		f := &j.Findings[i]
		if r.Options.OnlyFindings != nil && !r.Options.OnlyFindings(f) {
			continue
		}
		if f.Repair == nil || o.Paused || f.Repair.Pool.Paused { // a pause starts the age again
			continue
		}
		p.total++
		key := RepairKey(f)
		first, known := r.Process.repairs[key]
		if !known {
			first = o.Now
		}
		at := first.Add(repairAfter)
		isDue := r.Options.DryRun || !at.After(o.Now)
		if !isDue && !f.Repair.IsFenced {
			p.firstFound[key] = first
			p.next = EarliestNonZero(p.next, at)
			continue
		}
		c := apply.NewRepair(f)
		c.First, c.IsDue, c.IsWatched = first, isDue, o.Watched
		p.due = append(p.due, c)
	}
	if end := o.FencedSince.Add(judge.DELTimeout); !o.FencedSince.IsZero() && !p.next.IsZero() && end.After(o.Now) {
		p.next = EarliestNonZero(p.next, end) // then findings may rest on what is observed behind the fence
	}
	return p
}

// plannedRepairs are the findings that --repair would repair, and those that the breaker refuses.
func (r *Reconciler) plannedRepairs(j *findings.Assessment) ([]findings.Finding, []Unrepaired) {
	p := r.planRepairs(j)
	found := make([]findings.Finding, 0, len(p.due))
	for _, c := range p.due {
		found = append(found, *c.Finding)
		if r := findings.ReservationOf(j.Facts(), c.Finding); r != nil {
			found = append(found, *r)
		}
	}
	return found, p.refused
}

func (r *Reconciler) noteRepair(now time.Time, w *findings.Repair) {
	if r.Process.repairCounts == nil {
		r.Process.repairCounts = map[findings.NodePool]window{}
	}
	at := findings.NodePool{Node: w.Node, Pool: w.Pool.Ref()}
	r.Process.repairCounts[at] = r.Process.repairCounts[at].lastHour(now).add(now, 1, 0)
}

// recentRepairs is how many allocations were written within the last hour.
func (r *Reconciler) recentRepairs(now time.Time) map[findings.NodePool]int {
	count := map[findings.NodePool]int{}
	for at, w := range r.Process.repairCounts {
		count[at] = w.lastHour(now).total()
	}
	return count
}

// forgetRepairs drops the counts that are older than an hour.
func (r *Reconciler) forgetRepairs(now time.Time) {
	maps.DeleteFunc(r.Process.repairCounts, func(_ findings.NodePool, w window) bool { return len(w.lastHour(now)) == 0 })
}

// limitRepairs refuses repairs for which no pod in the API asks, where they are too many.
func (r *Reconciler) limitRepairs(
	j *findings.Assessment, due []*apply.Repair,
) (allowed, refused []*apply.Repair, why []Unrepaired) {
	if len(due) == 0 {
		return nil, nil, nil
	}
	repairs := make([]*findings.Repair, len(due))
	for i, c := range due {
		repairs[i] = c.Finding.Repair
	}
	x, inPool := j.Facts(), r.recentRepairs(j.Observation.Now)
	hasNoPod, phantoms := findings.UnrequestedRepairs(x, repairs)
	for at, n := range phantoms { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode, inAll, restored := map[string]int{}, 0, r.Process.Known.IsRecent(j.Judgement)
	for at, n := range inPool {
		byNode[at.Node] += n
		inAll += n
	}
	for _, c := range due {
		if c.HasNoPod = hasNoPod[c.Finding.Repair]; c.HasNoPod {
			at := findings.NodePool{Node: c.Finding.Repair.Node, Pool: c.Finding.Repair.Pool.Ref()}
			if text := findings.RepairLimit(x, at, restored, inAll+1, byNode[at.Node]+1, inPool[at]+1); text != "" {
				refused, why = append(refused, c), append(why, Unrepaired{*c.Finding, Breaker, text})
				continue
			}
			inAll++
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, c)
	}
	return allowed, refused, why
}
