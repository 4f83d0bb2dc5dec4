package reconciler

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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
	// unasked: an entry that no pod in the API asks for, see judge.Index.Unasked.
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
	if w.Instead != nil {
		was = w.Instead.ContainerID
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
		case c == nil, !c.waited && !f.Repair.Fenced:
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
