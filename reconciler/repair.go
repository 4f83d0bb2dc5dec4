package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// repairAfter is how long a finding must have stood, seen twice, before it is
// mended: an ADD in progress looks the same for a moment.
const repairAfter = time.Minute

// repair mends the findings that have stood for long enough, and returns when
// the next will have; zero if none waits.
func (r *Reconciler) repair(ctx context.Context, j *Judgement, out *Result) time.Time {
	o := j.Observation
	if o.Paused {
		return time.Time{} // and the findings' ages begin again
	}
	known := map[string]time.Time{}
	var until time.Time
	var due []*Finding
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.repair == nil || f.repair.in().Paused {
			continue
		}
		key := f.key()
		first, seen := r.History.repairs[key]
		if !seen {
			first = o.Now
		}
		if at := first.Add(repairAfter); !r.Options.Settled && at.After(o.Now) {
			known[key] = first
			until = Sooner(until, at)
			continue
		}
		due = append(due, f)
	}
	r.History.repairs = known
	for _, g := range grouped(due, func(f *Finding) (string, []string) { return f.repair.in().Namespace, f.repair.in().LeaseNames() }) {
		m := &repairs{basis: basis{Reconciler: r, first: o}, namespace: g.namespace, leases: g.leases, out: out, pace: newPace(r.Options.Settled)}
		m.run(ctx, g.items)
	}
	return until
}

func (f *Finding) key() string {
	return fmt.Sprint(f.Kind, f.Pool, f.IP, f.repair.podRef, f.repair.containerID)
}

// in is the pool that a repair is about.
func (w *repair) in() *ippool.Pool {
	if w.pool != nil {
		return w.pool
	}
	return w.item.Pool
}

// repairs mends findings whose writes go under the same Leases.
type repairs struct {
	basis
	namespace string
	leases    []string
	out       *Result
	pace      pace
}

func (m *repairs) run(ctx context.Context, todo []*Finding) {
	for try, lost := 1, 0; len(todo) > 0; {
		n := min(m.pace.size, len(todo))
		m.progress("repairing in namespace %s: %d to go", m.namespace, len(todo))
		left, err := m.attempt(ctx, todo[:n])
		rest := todo[n:]
		switch {
		case errors.Is(err, ErrForbidden), errors.Is(err, ErrLeaseForbidden), errors.Is(err, ErrLeaseBusy), errors.Is(err, errNoGround), ctx.Err() != nil, lost == maxLost:
			m.failed(left, err)
			m.failed(rest, err)
			return
		case len(left) < n: // some were mended
			todo, try = append(left, rest...), 1
			continue
		case n > 1 && (try > 1 || errors.Is(err, ErrHoldSpent)): // one of them may be what fails
			m.pace.spent(n)
			try = 1
		case try < tries:
			try++
		default:
			m.failed(left, err)
			todo, try, lost = rest, 1, lost+1
		}
		m.wait(ctx, 100*time.Millisecond<<try) // the hold was too short, or somebody was faster
	}
}

func (m *repairs) failed(findings []*Finding, err error) {
	for _, f := range findings {
		m.Log.Warn("not repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
		m.out.Unrepaired = append(m.out.Unrepaired, fmt.Sprintf("%s of %s in %s: %v", f.Kind, f.IP, f.Pool, err))
	}
}

// errNoGround: what was seen is no ground to write any more.
var errNoGround = errors.New("nothing is written now")

// attempt checks the findings once more, under the Leases, and writes where they
// still stand. It returns those that must be tried again.
func (m *repairs) attempt(ctx context.Context, todo []*Finding) (left []*Finding, err error) {
	if err := m.refresh(ctx); err != nil {
		return todo, err
	}
	if err := m.ground(); err != nil {
		return todo, err
	}
	left = todo
	err = m.Writer.Hold(ctx, m.namespace, m.leases, func(ctx context.Context, h *Hold) error {
		work, later := covered(todo, h, func(f *Finding) []string { return f.repair.in().LeaseNames() })
		if len(work) == 0 {
			return errLeaseMissing
		}
		if _, err := m.read(ctx, needOf(work)); err != nil {
			return err
		}
		if err := m.ground(); err != nil {
			return err
		}
		failed, err := m.write(ctx, h, m.standing(work))
		left = append(failed, later...)
		return err
	})
	return left, err
}

// ground says why nothing may be written now, nil if nothing stands against it.
func (m *repairs) ground() error {
	switch o := m.observation(); {
	case o.Restored != "":
		return fmt.Errorf("%w: etcd was restored (%s), and what was seen before proves nothing", errNoGround, o.Restored)
	case o.Paused:
		return fmt.Errorf("%w: everything is paused by the annotation %s", errNoGround, ippool.PausedAnnotation)
	}
	return nil
}

// needOf names what the second check of findings reads.
func needOf(findings []*Finding) Need {
	need := Need{Reread: true} // who writes an entry must know that its slot is empty
	for _, f := range findings {
		w := f.repair
		need.Pools = append(need.Pools, types.NamespacedName{Namespace: w.in().Namespace, Name: w.in().Name})
		need.Reservations = append(need.Reservations, types.NamespacedName{Namespace: w.in().Namespace, Name: ippool.ReservationName(w.network, w.address)})
		if ref, err := ippool.ParsePodRef(w.podRef); err == nil {
			need.Pods = append(need.Pods, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	need.Pools, need.Reservations, need.Pods = uniqueNames(need.Pools), uniqueNames(need.Reservations), uniqueNames(need.Pods)
	return need
}

// standing are those of the findings that are found by now, too.
func (m *repairs) standing(findings []*Finding) []*Finding {
	asked := make(map[string]bool, len(findings))
	for _, f := range findings {
		asked[f.key()] = true
	}
	var still []*Finding
	found := Judge(m.x.observation(), m.Options.judging()).Findings
	for i := range found {
		if f := &found[i]; f.repair != nil && asked[f.key()] {
			still = append(still, f)
			delete(asked, f.key())
		}
	}
	return still
}
