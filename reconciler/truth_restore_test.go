package reconciler

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// apiState is what etcd has of a truth. What runs is not in it.
type apiState struct {
	pods     map[string]*truePod
	reserved map[string]*trueReservation
	entries  map[*truePool]map[int]Allocation
	machines map[*machine]apiMachine
}

type apiMachine struct {
	object, tainted bool
	apiBoot         int
	notReady, heard time.Time
	report          *v1alpha1.SandboxReport
}

func (w *truth) backup() apiState {
	b := apiState{pods: map[string]*truePod{}, reserved: maps.Clone(w.reserved), entries: map[*truePool]map[int]Allocation{}, machines: map[*machine]apiMachine{}}
	for name, p := range w.pods {
		was := *p
		b.pods[name] = &was
	}
	for _, p := range w.pools() {
		b.entries[p] = maps.Clone(p.entries)
	}
	for _, m := range w.nodes {
		b.machines[m] = apiMachine{m.object, m.tainted, m.apiBoot, m.notReady, m.heard, m.report}
	}
	w.say("etcd is backed up")
	return b
}

// restore puts a backup back, out-of-service taints included: nobody removes those of machines
// that are on by now. A kubelet that reaches the API server says at once what its node
// is, unless its Node object is gone.
func (w *truth) restore(b apiState) {
	w.pods, w.reserved = b.pods, b.reserved
	for p, entries := range b.entries {
		p.entries = entries
	}
	for m, was := range b.machines {
		m.object, m.tainted, m.apiBoot, m.notReady, m.heard, m.report = was.object, was.tainted, was.apiBoot, was.notReady, was.heard, was.report
		if m.connected && m.object {
			m.apiBoot, m.notReady = m.boot, time.Time{}
		} else if m.notReady.IsZero() {
			m.notReady = w.now
		}
	}
	w.say("etcd is restored")
}

// release does what a pass has planned: addresses are given to others then.
func (w *truth) release(items []*judge.Item) {
	for _, it := range items {
		if it.Reservation != nil {
			delete(w.reserved, it.Reservation.Name)
			continue
		}
		for _, p := range w.pools() {
			if p.name != it.Pool.Name {
				continue
			}
			maps.DeleteFunc(p.entries, func(_ int, e Allocation) bool { return e.Key == it.Allocation.Key && e.ID == it.ContainerID() })
			delete(w.reserved, p.reservationOf(it.Address().String()))
		}
	}
}

// recorded are the sandboxes that have an entry of their own.
func (w *truth) recorded() map[*trueSandbox]bool {
	found := map[*trueSandbox]bool{}
	for _, b := range w.sandboxes {
		for _, e := range b.pool.entries {
			found[b] = found[b] || e.ID == b.id
		}
	}
	return found
}

// decides is a pass of the reconciler's, at a revision of etcd. It returns what is
// released of what runs. A sandbox that had an entry when etcd was restored, and has not
// any more, is not excused by that: until its agent reports it nothing is released.
func (w *truth) decides(p *process, rev uint64, had map[*trueSandbox]bool) (wrong []string, released, refused int) {
	plan := p.pass(w.now.Sub(Now), All(w.parts()...), revision(rev), func(o *Observed) { o.Past = p.History })
	w.say("a pass of the reconciler: %d to release, %s", len(plan.Release), refusals(plan))
	for _, b := range w.sandboxes {
		for _, it := range plan.Release {
			concerns := it.Allocation != nil && it.Pool.Name == b.pool.name && it.Address().String() == b.ip ||
				it.Allocation == nil && it.Reservation.Name == b.pool.reservationOf(b.ip)
			if why := w.cannotBeKnown(b, it); b.open && concerns && (why == "" || why == takenOver && had[b]) {
				wrong = append(wrong, b.id+" of "+b.pod+" runs on "+b.node.name+" with "+b.ip+", and "+it.Object()+" is released: "+it.Message())
			}
		}
	}
	w.release(plan.Release)
	return wrong, len(plan.Release), plan.count(EtcdRestored)
}

// What runs is not released after a restore either, whatever it has lost, whoever is
// heard when, and whether the reconciler is another process by then.
func TestNothingThatRunsIsReleasedAfterARestore(t *testing.T) {
	t.Parallel()
	released, refused := 0, 0
	manyTimes(t, 40, func(rt *rapid.T) {
		p := plots(20).Draw(rt, "plot")
		p.Agents, p.Selects = 0, 0 // what the operator leaves out, and where no agent is, is another property's
		w := newTruth(p, apart)
		process := newProcess(t, Options{AllowMassRelease: true})
		process.Restores = &memoryStore{}
		backup := rapid.IntRange(0, len(p.Steps)).Draw(rt, "backup before")
		restore := rapid.IntRange(backup, len(p.Steps)).Draw(rt, "restore before")
		restarts := rapid.Bool().Draw(rt, "the reconciler is restarted")
		var state apiState
		var had map[*trueSandbox]bool
		rev := uint64(1000)
		pass := func() {
			wrong, free, kept := w.decides(process, rev, had)
			rev++
			released += free
			refused += kept
			if len(wrong) > 0 {
				rt.Fatalf("%s\nwhat happened:\n%s", strings.Join(wrong, "\n"), strings.Join(w.log, "\n"))
			}
		}
		for i := range len(p.Steps) + 1 {
			if i == backup {
				state = w.backup()
			}
			if i == restore {
				pass()
				had = w.recorded()
				w.restore(state)
				w.now = w.now.Add(10 * time.Second)
				rev = 500
				pass()
				if restarts {
					process = process.restarted()
				}
			}
			if i < len(p.Steps) {
				w.now = w.now.Add(time.Second)
				events[p.Steps[i].What%len(events)](w, p.Steps[i])
			}
			pass()
		}
		w.timePasses(step{How: 1})
		pass()
	})
	if released == 0 || refused == 0 {
		t.Errorf("%d released, %d refused: this shows nothing", released, refused)
	}
}
