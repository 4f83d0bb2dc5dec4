package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// repairAfter is how long a finding must have stood, seen twice, before it is
// repaired: an ADD in progress looks the same for a moment. Behind the fence none is
// in progress.
const repairAfter = time.Minute

// repairAttempt is a finding on its way to being repaired.
type repairAttempt struct {
	*judge.Finding
	leases []string  // that its write needs
	first  time.Time // when it was found first
	waited bool      // it has stood for long enough
	unsure bool      // what was read of its reservation may no longer hold
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

// repair repairs the findings that have stood for long enough, and returns when
// the next will have; zero if none waits.
func (r *Reconciler) repair(ctx context.Context, j *judge.Judgement, out *Result) time.Time {
	o, p := j.Observation, r.History.planRepairs(j, r.Options)
	live := &liveIndex{Reconciler: r, first: o}
	r.History.repairs, out.ToRepair, out.Unrepaired = p.since, p.toRepair, p.withheld
	for _, g := range grouped(p.due, func(f *repairAttempt) (string, []string) { return f.Repair.Pool.Namespace, f.leases }) {
		m := &repairBatch{liveIndex: live, namespace: g.namespace, leases: g.leases, out: out, pace: newPace(!o.Fenced.IsZero()), lost: map[string]int{}}
		m.run(ctx, g.items)
	}
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

// repairBatch repairs findings whose writes go under the same Leases.
type repairBatch struct {
	*liveIndex
	namespace string
	leases    []string
	out       *Result
	pace      batchSize
	wrote     int            // writes that were done
	held      time.Duration  // how long the last hold kept others off
	lost      map[string]int // findings given up, by pool
}

// run repairs the findings, so many at a time as a hold has room for. One pool that
// cannot be written does not stop the others.
func (m *repairBatch) run(ctx context.Context, todo []*repairAttempt) {
	for try := 1; len(todo) > 0; {
		n := min(m.pace.size, len(todo))
		m.progress("repairing in namespace %s: %d to go", m.namespace, len(todo))
		wrote := m.wrote
		left, err := m.attempt(ctx, todo[:n])
		m.adjustBatchSize(n, m.wrote-wrote)
		rest := todo[n:]
		todo = slices.Concat(left, rest)
		slices.SortStableFunc(todo, entriesFirst) // a reservation matters to pools with an overlapping range alone
		switch {
		case len(left) == 0:
			try = 1
			continue
		case errors.Is(err, ErrForbidden), errors.Is(err, ErrLeaseForbidden), errors.Is(err, ErrLeaseBusy), errors.Is(err, ErrLeaseFailed), errors.Is(err, errPreconditions), ctx.Err() != nil:
			m.failed(todo, cmp.Or(err, ctx.Err()))
			return
		case m.wrote > wrote, len(left) < n: // what is left has not been tried in vain
			try = 1
			continue
		case n > 1 && (try > 1 || errors.Is(err, ErrHoldSpent)): // one of them may be what fails
			m.pace.spent(n)
			try = 1
		case try < tries:
			try++
		default:
			m.failed(left, err)
			todo, try = m.withoutLost(rest, left[0].Pool, err), 1
		}
		m.wait(ctx, 100*time.Millisecond<<try) // the hold was too short, or somebody was faster
	}
}

// adjustBatchSize has the next hold try less where this one was long, and more where it was not.
func (m *repairBatch) adjustBatchSize(n, wrote int) {
	const least = 32
	switch {
	case m.held > quickHold:
		m.pace.size = max(min(m.pace.size, n)/2, least)
	case wrote >= n:
		m.pace.fits(n, m.held)
	}
}

func entriesFirst(a, b *repairAttempt) int {
	return cmp.Compare(min(len(b.Repair.Key), 1), min(len(a.Repair.Key), 1))
}

// withoutLost gives up the rest of a pool of which so many failed that it is not the
// findings that fail, or of all.
func (m *repairBatch) withoutLost(todo []*repairAttempt, pool string, err error) (others []*repairAttempt) {
	m.lost[pool]++
	inAll := 0
	for _, n := range m.lost {
		inAll += n
	}
	var lost []*repairAttempt
	for _, f := range todo {
		if f.Pool == pool && m.lost[pool] >= maxLost || inAll >= maxLostInAll {
			lost = append(lost, f)
		} else {
			others = append(others, f)
		}
	}
	m.failed(lost, err)
	return others
}

func (m *repairBatch) failed(findings []*repairAttempt, err error) {
	why := WriteFailed
	switch {
	case errors.Is(err, ErrLeaseBusy), errors.Is(err, errLeaseMissing):
		why = LeaseBusy
	case errors.Is(err, ErrLeaseForbidden):
		why = NoLease
	case errors.Is(err, ErrConflict):
		why = Changed
	case errors.Is(err, errPaused):
		why = Paused
	case errors.Is(err, errPreconditions):
		why = EtcdRestored
	}
	for _, f := range findings {
		m.Log.Warn("not repaired", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "error", err)
		m.out.Unrepaired = append(m.out.Unrepaired, Unrepaired{*f.Finding, why, err.Error()})
	}
}

var (
	// errNoGround: what was seen is no ground to write any more.
	errPreconditions = errors.New("nothing is written now")
	errPaused        = errors.New("it is paused")
)

// attempt checks the findings once more, and again under the Leases, where it writes
// what still stands. It returns those that must be tried again.
func (m *repairBatch) attempt(ctx context.Context, todo []*repairAttempt) (left []*repairAttempt, err error) {
	if err := m.refresh(ctx); err != nil {
		return todo, err
	}
	if err := m.checkPreconditions(); err != nil {
		return todo, err
	}
	if _, err := m.read(ctx, m.keysToRecheck(todo)); err != nil {
		return todo, err
	}
	left, m.held = m.stillFound(todo), 0
	if len(left) == 0 {
		return nil, nil
	}
	err = m.Writer.Hold(ctx, m.namespace, m.leases, func(ctx context.Context, h *Hold) error {
		if err := m.refresh(ctx); err != nil { // the wait for the Lease may have been long
			return err
		}
		began := m.Clock.Now()
		if !h.Until.IsZero() { // else nobody waits, or everybody does
			defer func() { m.held = m.Clock.Since(began) }()
		}
		work, others := covered(left, h, func(f *repairAttempt) []string { return f.leases })
		if len(work) == 0 {
			return errLeaseMissing
		}
		if _, err := m.read(ctx, poolsOf(work)); err != nil {
			return err
		}
		if err := m.checkPreconditions(); err != nil {
			return err
		}
		if !h.Until.IsZero() {
			h.Until = later(began.Add(writeBackFor), m.Clock.Now().Add(writeBackFor/2))
		}
		failed, err := m.write(ctx, h, m.stillFound(work))
		left = append(failed, others...)
		return err
	})
	return left, err
}

// checkPreconditions says why nothing may be written now, nil if nothing stands against it.
func (m *repairBatch) checkPreconditions() error {
	switch o := m.observation(); {
	case o.Restored != "":
		return fmt.Errorf("%w: etcd was restored (%s), and what was seen before proves nothing", errPreconditions, o.Restored)
	case o.Paused:
		return fmt.Errorf("%w: %w: everything, by the annotation %s", errPreconditions, errPaused, ippool.PausedAnnotation)
	}
	return nil
}

// keysToRecheck names what is read before the Leases are taken: whose pods the sandboxes are,
// where only watches have told, and reservations of which a write failed. A pod that has
// ended since it was listed is no matter: its entry would have been as it is written.
func (m *repairBatch) keysToRecheck(findings []*repairAttempt) LiveKeys {
	var need LiveKeys
	for _, f := range findings {
		if ref, err := ippool.ParsePodRef(f.Repair.PodRef); err == nil && m.first.Watched && f.Repair.Key != "" {
			need.Pods = append(need.Pods, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
		if f.unsure {
			need.Reservations = append(need.Reservations, types.NamespacedName{Namespace: f.Repair.Pool.Namespace, Name: ippool.ReservationName(f.Repair.Network, f.Repair.Address)})
		}
	}
	need.Pods, need.Reservations = uniqueNames(need.Pods), uniqueNames(need.Reservations)
	return need
}

// poolsOf names what is read under the Leases: who writes an entry must know what is in
// its slot.
func poolsOf(findings []*repairAttempt) LiveKeys {
	need := LiveKeys{Reread: true}
	for _, f := range findings {
		need.Pools = append(need.Pools, types.NamespacedName{Namespace: f.Repair.Pool.Namespace, Name: f.Repair.Pool.Name})
	}
	need.Pools = uniqueNames(need.Pools)
	return need
}

// stillFound are those of the findings that are found by now, too, as they are found now.
// The cost grows with the findings, not with the cluster.
func (m *repairBatch) stillFound(findings []*repairAttempt) []*repairAttempt {
	asked := make(map[string]*repairAttempt, len(findings))
	var entries, reservations []netip.Addr
	for _, f := range findings {
		asked[findingKey(f.Finding)] = f
		if f.Repair.Key != "" {
			entries = append(entries, f.Repair.Address)
		} else {
			reservations = append(reservations, f.Repair.Address)
		}
	}
	found := m.x.FindingsAt(entries, reservations)
	var still []*repairAttempt
	for i := range found {
		f := &found[i]
		if f.Repair == nil {
			continue
		}
		if was := asked[findingKey(f)]; was != nil && (was.waited || f.Repair.Fenced) {
			f.Repair.Overlapping = was.Repair.Overlapping
			still = append(still, &repairAttempt{Finding: f, leases: was.leases, waited: was.waited, follow: was.follow, unasked: was.unasked})
		}
	}
	return still
}
