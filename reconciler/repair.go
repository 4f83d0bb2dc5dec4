package reconciler

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// repairAfter is how long a finding must have stood, seen twice, before it is repaired: an ADD in progress looks
	// the same for a moment. Behind the fence none is in progress.
	repairAfter = time.Minute
	// writeBackFor is for how long repairs are begun under a hold: ADDs are kept off for a second at most, unless a
	// large pool takes the API server longer.
	writeBackFor = 700 * time.Millisecond
)

// repairTerms are what a change knows of its finding.
type repairTerms struct {
	first  time.Time // when it was found first
	waited bool      // it has stood for long enough
	follow bool      // the reservation of an entry that was repaired
	// unasked: an entry that no pod in the API asks for, see judge.Index.UnrequestedRepairs.
	unasked bool
}

// Unrepaired is a finding that was not repaired.
type Unrepaired struct {
	judge.Finding
	Why    Refusal
	Detail string // a sentence
}

func (u Unrepaired) String() string {
	return fmt.Sprintf("%s of %s in %s: %s", u.Kind, u.IP, u.Pool, u.Detail)
}

// repair repairs the findings that have stood for long enough, and returns when the next will have; zero if none waits.
func (r *Reconciler) repair(ctx context.Context, j *judge.Judgement, out *Result) time.Time {
	p := r.History.planRepairs(j, r.Options)
	slices.SortStableFunc(p.due, entriesFirst)
	r.History.repairs, out.ToRepair, out.Unrepaired = p.since, p.toRepair, p.withheld
	r.execute(ctx, j.Observation, p.due, out, true)
	return p.until
}

func findingKey(f *judge.Finding) string {
	w := f.Repair
	was := ""
	if w.Previous != nil {
		was = w.Previous.ContainerID
	}
	return fmt.Sprint(f.Kind, f.Pool, f.IP, w.PodRef, w.ContainerID, " ", was)
}

// repairs is the kind of changes that repairs are.
type repairs struct{ *executor }

// keys are the pools, since who writes an entry must know what is in its slot; whose pods the sandboxes are, where only
// watches have shown them; and reservations of which a write failed.
func (e repairs) keys(todo []*change) (need LiveKeys) {
	for _, c := range todo {
		w := c.finding.Repair
		need.Pools = append(need.Pools, c.poolNames()...)
		if ref, err := ippool.ParsePodRef(w.PodRef); err == nil && e.first.Watched && w.Key != "" {
			need.Pods = append(need.Pods, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
		if c.err != nil {
			need.Reservations = append(need.Reservations, types.NamespacedName{Namespace: w.Pool.Namespace, Name: ippool.ReservationName(w.Network, w.Address)})
		}
	}
	return need.unique()
}

// preconditions says why nothing may be written now, nil if nothing stands against it.
func (e repairs) preconditions() error {
	if o := e.observation(); o.Restored != "" {
		return fmt.Errorf("%w: etcd was restored (%s), and what was seen before proves nothing", errPreconditions, o.Restored)
	} else if o.Paused {
		return errAllPaused
	}
	return nil
}

// judge returns those of the repairs whose findings are found by now, too, as they are found now. The cost grows with
// the findings, not with the cluster.
func (e repairs) judge(todo []*change) (still checked) {
	if err := e.preconditions(); err != nil {
		e.giveUp(todo, err)
		return nil
	}
	asked := make(map[string]*change, len(todo))
	var entries, reservations []netip.Addr
	for _, c := range todo {
		asked[findingKey(c.finding)] = c
		if c.finding.Repair.Key != "" {
			entries = append(entries, c.finding.Repair.Address)
		} else {
			reservations = append(reservations, c.finding.Repair.Address)
		}
	}
	found := e.x.FindingsAt(entries, reservations)
	for i := range found {
		f := &found[i]
		if f.Repair == nil {
			continue
		}
		c := asked[findingKey(f)]
		switch {
		case c == nil, !c.waited && !f.Repair.IsFenced:
		case f.Repair.Pool.Paused:
			e.giveUp([]*change{c}, fmt.Errorf("%w: pool %s, by its annotation %s", errPaused, f.Repair.Pool.Ref(), ippool.PausedAnnotation))
		default:
			f.Repair.Overlapping = c.finding.Repair.Overlapping
			c.finding = f
			still = append(still, c)
		}
	}
	return still
}

// missingReservations is the missing reservation of an entry that was written; none where it needs none, has it, or
// another pod needs the one that is there.
func (e *executor) missingReservations(c *change) []*change {
	missing := e.x.ReservationOf(c.finding)
	if missing == nil {
		return nil
	}
	return []*change{{finding: missing, leases: c.leases, repairTerms: repairTerms{waited: c.waited, follow: true}}}
}

func (e repairs) refuse(changes []*change, err error) {
	for _, c := range changes {
		f := c.finding
		e.Log.Warn("not repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
		e.out.Unrepaired = append(e.out.Unrepaired, Unrepaired{*f, whyOf(err), err.Error()})
	}
}

func (e repairs) finish(c *change) {
	f := c.finding
	e.Log.Info("repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods, "podRef", f.Repair.PodRef, "containerID", f.Repair.ContainerID)
	e.out.Repaired = append(e.out.Repaired, *f)
	if !c.follow {
		e.out.ToRepair--
	}
	if c.unasked {
		e.History.noteRepair(e.observation().Now, f.Repair)
	}
}

// entriesFirst sorts repairs: a reservation matters to pools with an overlapping range alone.
func entriesFirst(a, b *change) int {
	return min(len(b.finding.Repair.Key), 1) - min(len(a.finding.Repair.Key), 1)
}

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
		if !waited && !f.Repair.IsFenced {
			p.since[key] = first
			p.until = EarliestNonZero(p.until, at)
			continue
		}
		p.due = append(p.due, &change{finding: f, leases: f.Repair.Pool.LeaseNames(), repairTerms: repairTerms{first: first, waited: waited}})
	}
	if end := o.FencedSince.Add(judge.DELTimeout); !o.FencedSince.IsZero() && !p.until.IsZero() && end.After(o.Now) {
		p.until = EarliestNonZero(p.until, end) // what waits may then rest on what is seen behind the fence
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

// noteRepair counts an entry that was written.
func (h *History) noteRepair(now time.Time, w *judge.Repair) {
	if h.repaired == nil {
		h.repaired = map[judge.NodePool]window{}
	}
	at := judge.NodePool{Node: w.Node, Pool: w.Pool.Ref()}
	h.repaired[at] = h.repaired[at].since(now).and(now, 1, 0)
}

// repairedWithin is how many entries were written within the last hour.
func (h *History) repairedWithin(now time.Time) map[judge.NodePool]int {
	count := map[judge.NodePool]int{}
	for at, w := range h.repaired {
		count[at] = w.since(now).made()
	}
	return count
}

// forgetRepairs forgets the entries that were written more than an hour ago.
func (h *History) forgetRepairs(now time.Time) {
	maps.DeleteFunc(h.repaired, func(_ judge.NodePool, w window) bool { return len(w.since(now)) == 0 })
}

// boundRepairs withholds what would be too much for which no pod in the API asks.
func (h *History) boundRepairs(j *judge.Judgement, due []*change) (allowed, withheld []*change, why []Unrepaired) {
	if len(due) == 0 {
		return nil, nil, nil
	}
	repairs := make([]*judge.Repair, len(due))
	for i, f := range due {
		repairs[i] = f.finding.Repair
	}
	x, inPool := j.Index(), h.repairedWithin(j.Observation.Now)
	unasked, phantoms := x.UnrequestedRepairs(repairs)
	for at, n := range phantoms { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode, inAll, restored := map[string]int{}, 0, h.restoredLately(j)
	for at, n := range inPool {
		byNode[at.Node] += n
		inAll += n
	}
	for _, f := range due {
		if f.unasked = unasked[f.finding.Repair]; f.unasked {
			at := judge.NodePool{Node: f.finding.Repair.Node, Pool: f.finding.Repair.Pool.Ref()}
			if text := x.RepairLimit(at, restored, inAll+1, byNode[at.Node]+1, inPool[at]+1); text != "" {
				withheld, why = append(withheld, f), append(why, Unrepaired{*f.finding, Breaker, text})
				continue
			}
			inAll++
			byNode[at.Node]++
			inPool[at]++
		}
		allowed = append(allowed, f)
	}
	return allowed, withheld, why
}

// restoredFor is for how long agents report a restore of etcd (agent/restore.go, restoreNoteFor).
const restoredFor = 24 * time.Hour

// restoredLately reports whether etcd was restored within a day, as this process has detected or the agents of most
// nodes report. A single agent's report raises no bound.
func (h *History) restoredLately(j *judge.Judgement) bool {
	now, r, reporters := j.Observation.Now, &h.restore, 0
	for _, report := range j.Observation.Reports {
		if now.Sub(report.RestoreDetectedAt) <= restoredFor {
			reporters++
		}
	}
	return 2*reporters > len(j.Nodes) || now.Sub(r.seen) <= restoredFor && !strings.Contains(r.Why, byAgentOf)
}
