package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A randomCluster is a simulator in which pods come and go by themselves: between any
// two calls of the reconciler, and step by step as whereabouts does it.
type randomCluster struct {
	*simulator
	act    sync.Mutex // what happens, happens one after the other
	tape   []int      // what is decided, in the order of decisions
	lease  bool       // ADDs and DELs wait for our hold, and we for them
	held   bool
	job    func() bool // the ADD or DEL under way; each call is one of its steps, false after the last
	live   map[string]podSandbox
	dead   []podSandbox // sandboxes that ended without a DEL
	ids    int
	fails  int // creates that failed in a row
	broken []string
}

// A podSandbox is a sandbox with its address.
type podSandbox struct {
	id, pod string
	key     int
}

// decide takes the next decision: 0 to n-1, and 0 when the tape is over.
func (w *randomCluster) decide(n int) int {
	if len(w.tape) == 0 {
		return 0
	}
	d := w.tape[0] % n
	w.tape = w.tape[1:]
	return d
}

func (w *randomCluster) happen(call, object string) {
	w.act.Lock()
	defer w.act.Unlock()
	w.verify(call + " " + object)
	if call == "hold" && w.lease {
		w.finishJob()
	}
	// Seldom, but then a lot: what matters is a pod that comes between two calls.
	if w.decide(5) == 4 {
		for range 1 + w.decide(6) {
			w.randomEvent()
		}
	} else if w.job != nil && w.decide(2) == 1 {
		w.randomEvent()
	}
}

// randomEvent is one step of the cluster.
func (w *randomCluster) randomEvent() {
	if w.job != nil {
		if !w.job() {
			w.job = nil
		}
		return
	}
	pod := fmt.Sprint("web-", w.decide(3))
	i := slices.IndexFunc(w.sandboxes(), func(b podSandbox) bool { return b.pod == pod })
	switch what := w.decide(5); {
	case i < 0 && what < 3 && w.mayBegin():
		w.ids++
		w.pod(pod, fmt.Sprint("uid-", w.ids))
		w.job = w.add(podSandbox{id: fmt.Sprint("box-", w.ids), pod: pod})
	case i < 0 && what == 3 && len(w.dead) > 0 && w.mayBegin(): // kubelet comes to a leak at last
		b := w.dead[0]
		w.dead = w.dead[1:]
		w.job = w.del(b, func() {})
	case i >= 0 && what < 2 && w.mayBegin():
		b := w.sandboxes()[i]
		delete(w.live, b.id)
		w.job = w.del(b, func() { w.noPod(b.pod) })
	case i >= 0 && what == 2:
		b := w.sandboxes()[i]
		delete(w.live, b.id)
		w.dead = append(w.dead, b)
		w.noPod(b.pod)
	case what == 4: // somebody else writes to the pool
		w.mu.Lock()
		w.store(w.pools, w.pools[bluePool].DeepCopy())
		w.mu.Unlock()
	}
}

func (w *randomCluster) sandboxes() []podSandbox {
	return slices.SortedFunc(maps.Values(w.live), func(a, b podSandbox) int { return strings.Compare(a.id, b.id) })
}

func (w *randomCluster) mayBegin() bool { return !w.lease || !w.held }

func (w *randomCluster) finishJob() {
	for w.job != nil && w.job() {
	}
	w.job = nil
}

// add is ADD as whereabouts v0.9.4 makes it (IPManagementKubernetesUpdate): read
// the pool and the reservation; patch the pool if it is still the same; create
// the reservation unless one with this podref was there.
func (w *randomCluster) add(b podSandbox) func() bool {
	podRef := "default/" + b.pod
	var version string
	skip, read := false, false
	taken := map[int]bool{}
	patched, tries := false, 0
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		pool := w.pools[bluePool]
		switch tries++; {
		case tries > 100:
			return false // its own entry, and another's reservation: ADD fails (D6)
		case !read:
			// whereabouts itself does not reset this when it begins again; where our
			// hold keeps it out that makes no difference.
			version, skip, read = pool.GetResourceVersion(), false, true
			b.key = pick(entriesOf(pool), podRef, taken)
			if r := w.reservations[addressOf(b.key).String()]; r != nil {
				owner, _, _ := unstructured.NestedString(r.Object, "spec", "podref")
				skip = owner == podRef
				if !skip {
					taken[b.key], read = true, false
				}
			}
			return true
		case !patched:
			if pool.GetResourceVersion() != version {
				read = false
				return true
			}
			next := pool.DeepCopy()
			_ = unstructured.SetNestedMap(next.Object, map[string]any{"id": b.id, "podref": podRef, "ifname": "net1"}, "spec", "allocations", fmt.Sprint(b.key))
			w.store(w.pools, next)
			patched = true
			return true
		case !skip && w.reservations[addressOf(b.key).String()] != nil:
			w.dead = append(w.dead, b) // ADD fails, and its DEL is still to come
			return false
		case !skip:
			w.store(w.reservations, ippool.NewReservation("kube-system", "", addressOf(b.key), podRef, "net1"))
		}
		w.live[b.id] = b
		w.mu.Unlock()
		w.pod(b.pod, fmt.Sprint("uid-", strings.TrimPrefix(b.id, "box-")), b.key)
		w.mu.Lock()
		return false
	}
}

// pick is the key that ADD takes: the one under its podref, else the lowest free.
func pick(entries map[string]any, podRef string, taken map[int]bool) int {
	for key, e := range entries {
		var n int
		if entry, _ := e.(map[string]any); entry["podref"] == podRef {
			_, _ = fmt.Sscan(key, &n)
			return n
		}
	}
	n := 1
	for ; entries[fmt.Sprint(n)] != nil || taken[n]; n++ {
	}
	return n
}

// del is DEL: the entry with this id goes, and then the reservation of that name.
func (w *randomCluster) del(b podSandbox, then func()) func() bool {
	removed := false
	return func() bool {
		w.mu.Lock()
		if !removed {
			defer w.mu.Unlock()
			next := w.pools[bluePool].DeepCopy()
			if e, _ := entriesOf(next)[fmt.Sprint(b.key)].(map[string]any); e["id"] != b.id {
				w.mu.Unlock()
				then()
				w.mu.Lock()
				return false
			}
			unstructured.RemoveNestedField(next.Object, "spec", "allocations", fmt.Sprint(b.key))
			w.store(w.pools, next)
			removed = true
			return true
		}
		w.revision++
		delete(w.reservations, addressOf(b.key).String())
		w.mu.Unlock()
		then()
		return false
	}
}

// verify notes each live sandbox whose entry is not there.
func (w *randomCluster) verify(when string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := entriesOf(w.pools[bluePool])
	for _, b := range w.live {
		if e, _ := entries[fmt.Sprint(b.key)].(map[string]any); e["id"] != b.id {
			w.broken = append(w.broken, fmt.Sprintf("before %q: the entry of %s (%s) is %v", when, b.pod, b.id, e))
		}
	}
}

// fail decides about faults. What puts a reservation back is tried five times,
// so that it does not fail more often.
func (w *randomCluster) fail(call, _ string) (error, bool) {
	w.act.Lock()
	defer w.act.Unlock()
	what := w.decide(8)
	if call == "create" {
		if w.fails++; w.fails > 3 {
			what = 0
		}
		if what < 6 {
			w.fails = 0
		}
	}
	switch {
	case what < 6 || call == "observe":
		return nil, false
	case call == "hold":
		return reconciler.ErrLeaseBusy, false
	}
	return errServer, what == 7
}

// Hold is the simulator's, and keeps ADDs and DELs out where there is a Lease.
func (w *randomCluster) Hold(ctx context.Context, namespace string, leases []string, work func(context.Context, *reconciler.Hold) error) error {
	return w.simulator.Hold(ctx, namespace, leases, func(ctx context.Context, h *reconciler.Hold) error {
		w.act.Lock()
		if w.lease {
			w.finishJob()
		}
		w.held = true
		w.act.Unlock()
		defer func() {
			w.act.Lock()
			w.held = false
			w.act.Unlock()
		}()
		return work(ctx, h)
	})
}

// pass makes a run, or passes like those that changes start, and returns what was released.
func (w *randomCluster) pass(r *reconciler.Reconciler, once bool) (released []*judge.Item, err error) {
	if !once {
		out, err := r.Run(context.Background())
		if err != nil {
			return nil, err
		}
		return out.Released, nil
	}
	for range 4 {
		out, _, err := r.Pass(context.Background(), nil)
		if err != nil {
			return nil, err
		}
		released = append(released, out.Released...)
		time.Sleep(30 * time.Second) // what is not confirmed waits to be confirmed
	}
	return released, nil
}

// TestNoInterleavingAndNoFaultFreesALiveAddress runs small random worlds. With
// the Lease every live sandbox has its entry all the time, and its reservation
// when the run is over; without it too, except that a reservation that stands
// alone is not protected from the ADD that is just about to keep it.
func TestNoInterleavingAndNoFaultFreesALiveAddress(t *testing.T) {
	t.Parallel()
	released := 0
	property := func(rt *rapid.T) {
		lease := rapid.Bool().Draw(rt, "lease")
		tape := rapid.SliceOfN(rapid.IntRange(0, 119), 20, 300).Draw(rt, "decisions")
		once := rapid.Bool().Draw(rt, "one pass, and no run")
		slow := rapid.SampledFrom([]time.Duration{0, 0, 50 * time.Millisecond, 400 * time.Millisecond}).Draw(rt, "a call takes")
		var broken []string
		synctest.Test(t, func(*testing.T) {
			w := &randomCluster{simulator: newSimulator(), tape: tape, lease: lease, live: map[string]podSandbox{}}
			for _, call := range []string{"fresh", "delete", "patch", "create"} {
				w.takes[call] = slow
			}
			for key, name := range []string{1: "web-0", 2: "web-1", 3: "web-2", 4: "nobody"} { // leaks of pods that may come back
				if name != "" {
					w.entry(bluePool, key, "default/"+name, "box-of-"+name, name != "web-2")
					w.dead = append(w.dead, podSandbox{"box-of-" + name, name, key})
				}
			}
			time.Sleep(5 * time.Minute)
			w.step, w.fault = w.happen, w.fail
			r := w.reconciler(nil)
			r.Source, r.Writer = w, w
			alone := map[string]bool{}
			for range 2 {
				done, err := w.pass(r, once)
				if err != nil {
					broken = append(broken, err.Error())
					return
				}
				released += len(done)
				for _, it := range done {
					alone[it.Object()] = alone[it.Object()] || it.Reservation != nil && len(it.Related()) == 0
				}
				time.Sleep(time.Minute)
			}
			w.finishJob()
			w.verify("the end")
			broken = append(w.broken, w.late...)
			for _, b := range w.live {
				name := addressOf(b.key).String()
				r := w.reservations[name]
				if r == nil && (lease || !alone["kube-system/"+name]) {
					broken = append(broken, fmt.Sprintf("%s (%s) lives without its reservation %s; calls: %s", b.pod, b.id, name, strings.Join(w.calls, ", ")))
				}
			}
		})
		if len(broken) > 0 {
			rt.Fatal(errors.New(strings.Join(broken, "\n")))
		}
	}
	for range 15 { // a cluster costs a millisecond, and what matters in it is rare
		rapid.Check(t, property)
	}
	if released == 0 {
		t.Error("nothing is released: this shows nothing")
	}
}
