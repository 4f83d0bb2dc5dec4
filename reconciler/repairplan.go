package reconciler

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// repairPlan is what is to be done about the findings of a judgement now.
type repairPlan struct {
	due      []*change
	withheld []Unrepaired         // by the breaker
	toRepair int                  // findings that --repair would repair and that are not paused
	since    map[string]time.Time // when those that wait were found first
	until    time.Time            // when the next has waited for long enough; zero if none waits
}

// planRepairs picks the findings that may be repaired now. It changes nothing.
func (h *History) planRepairs(j *judge.Judgement, opts Options) *repairPlan {
	p := h.dueRepairs(j, opts)
	if opts.AllowMassRepair {
		return p
	}
	var withheld []*change
	p.due, withheld, p.withheld = h.boundRepairs(j, p.due)
	for _, f := range withheld {
		if f.waited {
			p.since[findingKey(f.finding)] = f.first // it need not stand for a minute again
		}
	}
	return p
}

// dueRepairs are the findings that have stood for long enough.
func (h *History) dueRepairs(j *judge.Judgement, opts Options) *repairPlan {
	o, p := j.Observation, &repairPlan{since: map[string]time.Time{}}
	for i := range j.Findings {
		f := &j.Findings[i]
		if opts.OnlyFindings != nil && !opts.OnlyFindings(f) {
			continue
		}
		if f.Repair == nil || o.Paused || f.Repair.Pool.Paused { // the age of what is paused begins again
			continue
		}
		p.toRepair++
		key := findingKey(f)
		first, seen := h.repairs[key]
		if !seen {
			first = o.Now
		}
		at := first.Add(repairAfter)
		waited := opts.DryRun || !at.After(o.Now)
		if !waited && !f.Repair.Fenced {
			p.since[key] = first
			p.until = Sooner(p.until, at)
			continue
		}
		p.due = append(p.due, &change{finding: f, leases: f.Repair.Pool.LeaseNames(), repairTerms: repairTerms{first: first, waited: waited}})
	}
	if end := o.Fenced.Add(judge.DELTimeout); !o.Fenced.IsZero() && !p.until.IsZero() && end.After(o.Now) {
		p.until = Sooner(p.until, end) // what waits may then rest on what is seen behind the fence
	}
	return p
}

// wouldRepair are the findings that --repair repairs when they have stood for long enough,
// and those that the breaker withholds.
func (h *History) wouldRepair(j *judge.Judgement, opts Options) ([]judge.Finding, []Unrepaired) {
	p := h.planRepairs(j, opts)
	found := make([]judge.Finding, 0, len(p.due))
	for _, f := range p.due {
		found = append(found, *f.finding)
		if r := j.Index().ReservationOf(f.finding); r != nil {
			found = append(found, *r)
		}
	}
	return found, p.withheld
}
