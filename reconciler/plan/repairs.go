package plan

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// RepairAfter is how long a finding must stand, found twice, before it is repaired: an ADD in progress causes the same
// finding for a moment. Behind the fence no ADD is in progress.
const RepairAfter = time.Minute

// Repairs are which findings of a pass are repaired now.
type Repairs struct {
	Due     []Repair
	Refused []Unrepaired         // by the breaker
	Total   int                  // findings that --repair would repair and that are not paused
	Found   map[string]time.Time // when each finding that waits was found first, by RepairKey
	Next    time.Time            // when the next one is due; zero for none
}

// Repair is a finding that is repaired now.
type Repair struct {
	Finding  *findings.Finding // it has a findings.Repair
	IsDue    bool              // it has stood for long enough; otherwise only the fence allows the repair
	HasNoPod bool              // no pod in the API asks for the allocation, see unrequestedRepairs
	first    time.Time         // when it was found first
}

// Unrepaired is a finding that was not repaired.
type Unrepaired struct {
	findings.Finding
	Why    Refusal
	Detail string // a sentence
}

func (u Unrepaired) String() string {
	return fmt.Sprintf("%s of %s in %s: %s", u.Kind, u.IP, u.Pool, u.Detail)
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

// MakeRepairs picks the findings that may be repaired now. found is the Found of the pass before, and written what was
// repaired within the last hour.
func MakeRepairs(
	a *findings.Assessment, s restore.State, found map[string]time.Time, written RepairCounts, o Options,
) *Repairs {
	p := dueRepairs(a, found, o)
	if !o.AllowMassRepair {
		p.limit(a, s, written)
	}
	return p
}

// dueRepairs picks the findings that have stood for long enough.
func dueRepairs(a *findings.Assessment, found map[string]time.Time, opts Options) *Repairs {
	o, p := a.Observation, &Repairs{Found: map[string]time.Time{}}
	for i := range a.Findings {
		f := &a.Findings[i]
		if opts.OnlyFindings != nil && !opts.OnlyFindings(f) {
			continue
		}
		if f.Repair == nil || o.Paused || f.Repair.Pool.Paused { // a pause starts the age again
			continue
		}
		p.Total++
		key := RepairKey(f)
		first, known := found[key]
		if !known {
			first = o.Now
		}
		at := first.Add(RepairAfter)
		isDue := opts.DryRun || !at.After(o.Now)
		if !isDue && !f.Repair.IsFenced {
			p.Found[key] = first
			p.Next = EarliestNonZero(p.Next, at)
			continue
		}
		p.Due = append(p.Due, Repair{Finding: f, IsDue: isDue, first: first})
	}
	if end := o.FencedSince.Add(judge.DELTimeout); !o.FencedSince.IsZero() && !p.Next.IsZero() && end.After(o.Now) {
		p.Next = EarliestNonZero(p.Next, end) // then findings may rest on what is observed behind the fence
	}
	return p
}

// limit refuses repairs for which no pod in the API asks, where they are too many.
func (p *Repairs) limit(a *findings.Assessment, s restore.State, written RepairCounts) {
	if len(p.Due) == 0 {
		return
	}
	repairs := make([]*findings.Repair, len(p.Due))
	for i, c := range p.Due {
		repairs[i] = c.Finding.Repair
	}
	f, inPool := a.Facts(), written.recent(a.Observation.Now)
	hasNoPod, phantoms := unrequestedRepairs(f, repairs)
	for at, n := range phantoms { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode, inAll, restored := map[string]int{}, 0, s.IsRecent(a.Judgement)
	for at, n := range inPool {
		byNode[at.Node] += n
		inAll += n
	}
	var allowed []Repair
	for _, c := range p.Due {
		if c.HasNoPod = hasNoPod[c.Finding.Repair]; c.HasNoPod {
			at := nodePoolOf(c.Finding.Repair)
			if text := RepairLimit(f, at, restored, inAll+1, byNode[at.Node]+1, inPool[at]+1); text != "" {
				p.refuse(c, text)
				continue
			}
			inAll++
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, c)
	}
	p.Due = allowed
}

// refuse adds a finding that the breaker refuses. A due one need not stand for a minute again.
func (p *Repairs) refuse(c Repair, why string) {
	p.Refused = append(p.Refused, Unrepaired{*c.Finding, Breaker, why})
	if c.IsDue {
		p.Found[RepairKey(c.Finding)] = c.first
	}
}

// Findings returns the findings that are repaired now, and the reservations that their allocations need.
func (p *Repairs) Findings(f *facts.Facts) []findings.Finding {
	found := make([]findings.Finding, 0, len(p.Due))
	for _, c := range p.Due {
		found = append(found, *c.Finding)
		if r := findings.ReservationOf(f, c.Finding); r != nil {
			found = append(found, *r)
		}
	}
	return found
}
