//go:build slow

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestStorm runs the real plugin and the real command concurrently, without node
// agents, and checks in the history of the pools that no address was free while it was in use.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	// red has the addresses of blue: only their network names distinguish them.
	red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
	// sliced gives each node a pool and a Lease of its own.
	s.slices(t, "sliced", "worker-1", "10.4.1.0/24", "worker-2", "10.4.2.0/24")
	sliced := theNames(network("sliced", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"}))
	sliced.pool = func(node string) string { return node + "-10.4." + node[len("worker-"):] + ".0-24" }
	r := newFaultTrial(t, s, false, theNames(blue), theNames(red), sliced)
	began := time.Now()
	runs := r.runs(t, s.Kubeconfig(), "--trust-network-status")
	rest := r.traffic(t, 1, 24)
	eventuallyWithin(t, 15*time.Minute, "the storm to be large enough to show anything", func() bool {
		return r.adds.Load() >= 250 && r.released.Load() >= 30
	})
	rest()
	left := r.settle(t)
	runs()
	t.Logf("%s; %d leaked entries were taken over by a successor first; %.1fs", r.verdict(t, left), r.pools.takenOver(),
		time.Since(began).Seconds())
	if len(r.live) == 0 {
		t.Error("no sandbox lives")
	}
}

// A holding is one address of one sandbox, from the return of ADD until its DEL begins or the sandbox ends without one.
type holding struct {
	network           *stormNetwork
	pool, reservation string
	id, ifName        string
	podRef, address   string
	node, uid         string // of the pod; "" in a storm
	closed            bool   // its network namespace is gone
	// Revisions: before the ADD, after it, and of its end, which is 0 while it lives.
	called, from, until uint64
}

func (h *holding) String() string {
	return fmt.Sprintf("%s of %s %s (%.12s) in %s", h.address, h.podRef, h.ifName, h.id, h.pool)
}

// recorded reports whether a version of the pool has the holding's entry.
func (h *holding) recorded(pool *unstructured.Unstructured) bool {
	for _, e := range entriesOf(pool) {
		if e["id"] == h.id && e["ifname"] == h.ifName && e["podref"] == h.podRef {
			return true
		}
	}
	return false
}

// A ledger has all holdings, and detects when two live sandboxes share an address.
type ledger struct {
	mu    sync.Mutex
	all   []*holding
	live  map[string]*holding // by network and address
	twice []error
}

func (l *ledger) begin(h *holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, h)
	if other := l.live[h.network.scope+" "+h.address]; other != nil {
		l.twice = append(l.twice, fmt.Errorf("two live sandboxes have one address: %s and %s", h, other))
	}
	l.live[h.network.scope+" "+h.address] = h
}

func (l *ledger) end(h *holding, revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.until = revision
	if l.live[h.network.scope+" "+h.address] == h {
		delete(l.live, h.network.scope+" "+h.address)
	}
}

// isLive reports whether a container id belongs to a sandbox that lives.
func (l *ledger) isLive(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(h *holding) bool { return h.id == id && h.until == 0 })
}

// check compares the holdings with the histories: each holding's allocation is in every version of its pool, and its
// reservation exists all the time. An allocation that is missing between ADD's return and the revision read after it is
// missing in the first version that is checked, too. If no version until then had the allocation, whereabouts itself
// has lost it (see docs/explain/safety.md): such a holding is in unwritten, and is checked from the version that a
// repair wrote.
func (l *ledger) check(pools, reservations *history, now uint64) (freed, bare []error, unwritten []*holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.all {
		until := h.until
		if until == 0 {
			until = now
		}
		entries, reserved := pools.during(h.pool, h.from, until), reservations.during(h.reservation, h.from, until)
		if first, ok := pools.first(h.pool, h.called, h.recorded); !ok || first > h.from {
			unwritten = append(unwritten, h)
			entries, reserved = nil, nil // a repair creates the reservation after the allocation
			if ok {
				entries = pools.during(h.pool, first, until)
			}
		}
		if i := slices.IndexFunc(entries, func(v version) bool { return !h.recorded(v.object) }); i >= 0 {
			freed = append(freed, fmt.Errorf("at revision %d no entry exists for %s, which lived from %d to %d",
				entries[i].revision, h, h.from, until))
		}
		if i := slices.IndexFunc(reserved, func(v version) bool { return v.spec("podref") != h.podRef }); i >= 0 {
			bare = append(bare, fmt.Errorf("at revision %d no reservation %s exists for %s, which lived from %d to %d",
				reserved[i].revision, h.reservation, h, h.from, until))
		}
	}
	return append(freed, l.twice...), bare, unwritten
}

// leaks compares what is stored with what lives: a sentence for each allocation and reservation too many or too few.
func (l *ledger) leaks(ctx context.Context, poolsNow, reservationsNow dynamic.ResourceInterface) (leaks []string,
	err error) {
	l.mu.Lock()
	want := map[string]bool{}
	for _, h := range l.live {
		want[fmt.Sprintf("entry %s %s %s %s", h.pool, h.podRef, h.ifName, h.id)] = true
		want[fmt.Sprintf("reservation %s %s", h.reservation, h.podRef)] = true
	}
	l.mu.Unlock()
	pools, err1 := poolsNow.List(ctx, metav1.ListOptions{})
	reservations, err2 := reservationsNow.List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	got := map[string]bool{}
	for _, p := range pools.Items {
		for _, e := range entriesOf(&p) {
			got[fmt.Sprintf("entry %s %v %v %v", p.GetName(), e["podref"], e["ifname"], e["id"])] = true
		}
	}
	for _, r := range reservations.Items {
		podRef, _, _ := unstructured.NestedString(r.Object, "spec", "podref")
		got[fmt.Sprintf("reservation %s %s", r.GetName(), podRef)] = true
	}
	for text := range got {
		if !want[text] {
			leaks = append(leaks, "leaked: "+text)
		}
	}
	for text := range want {
		if !got[text] {
			leaks = append(leaks, "missing: "+text)
		}
	}
	slices.Sort(leaks)
	return leaks, nil
}

// ours compares the product's patches with their effect on the pools, and counts the allocations that they removed. A
// patch tests the version that it is for, so the next version is its result.
func ours(pools *history, writes []harness.Write) (released int, strayed []error) {
	for _, w := range writes {
		if w.Program != "ip-reconcile" || w.Resource != harness.IPPools.Resource {
			continue
		}
		released += len(w.Removed)
		before, after := pools.step(w.Name, w.Base)
		if before == nil || after == nil {
			strayed = append(strayed, fmt.Errorf("no version is known that this was for: %s", w))
			continue
		}
		want := entriesOf(before)
		got := entriesOf(after)
		for _, key := range w.Removed {
			if want[key] == nil || got[key] != nil {
				strayed = append(strayed, fmt.Errorf("entry %s was %v, and is %v: %s", key, want[key], got[key], w))
			}
			delete(want, key)
		}
		for _, key := range w.Written {
			want[key] = got[key]
		}
		if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(outside(before), outside(after)) {
			strayed = append(strayed, fmt.Errorf("more was written than the entries meant: %v became %v: %s", before.Object,
				after.Object, w))
		}
	}
	return released, strayed
}

// outside is a pool without its allocations and without what the API server writes itself.
func outside(pool *unstructured.Unstructured) map[string]any {
	o := pool.DeepCopy()
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	o.SetGeneration(0)
	unstructured.RemoveNestedField(o.Object, "spec", "allocations")
	return o.Object
}

// inOrder is a count of each kind, as text.
func inOrder(counts map[string]int) (text string) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(", %d %s", counts[kind], kind)
	}
	return text[min(len(text), 2):]
}

// TestLedger_ReleaseOrNeverWritten has one sandbox from revision 5 to 20, and the states of its pool meanwhile.
func TestLedger_ReleaseOrNeverWritten(t *testing.T) {
	t.Parallel()
	with := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"allocations": map[string]any{
		"1": map[string]any{"id": "a", "ifname": "net1", "podref": "default/web"}}}}}
	without := &unstructured.Unstructured{Object: map[string]any{}}
	reserved := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"podref": "default/web"}}}
	for situation, c := range map[string]struct {
		pool, reservation      []version
		freed, bare, unwritten int
	}{
		"it has the entry all the time":                    {pool: []version{{3, with}}},
		"its DEL":                                          {pool: []version{{3, with}, {21, without}}},
		"the entry is removed while it lives":              {pool: []version{{3, with}, {9, without}}, freed: 1},
		"the entry is removed before ADD's return is seen": {pool: []version{{3, with}, {4, without}}, freed: 1},
		"the pool is deleted":                              {pool: []version{{3, with}, {9, nil}}, freed: 1},
		"no version ever has it":                           {pool: []version{{3, without}, {9, without}}, unwritten: 1},
		"its reservation is removed while it lives": {pool: []version{{3, with}}, reservation: []version{{9, nil}},
			bare: 1},
		"no pool exists":     {unwritten: 1},
		"a repair writes it": {pool: []version{{3, without}, {9, with}}, unwritten: 1},
		"a repair writes it, and it is removed again": {pool: []version{{3, without}, {9, with}, {12, without}}, freed: 1,
			unwritten: 1},
	} {
		t.Run(situation, func(t *testing.T) {
			l := &ledger{all: []*holding{{pool: "p", reservation: "r", id: "a", ifName: "net1", podRef: "default/web",
				address: "10.1.0.1", from: 5, until: 20}}}
			freed, bare, unwritten := l.check(&history{of: map[string][]version{"p": c.pool}},
				&history{of: map[string][]version{"r": append([]version{{4, reserved}}, c.reservation...)}}, 30)
			if len(freed) != c.freed || len(bare) != c.bare || len(unwritten) != c.unwritten {
				t.Errorf("%d released, %d bare, %d unwritten, want %d, %d, %d: %v %v", len(freed), len(bare), len(unwritten),
					c.freed,
					c.bare, c.unwritten, freed, bare)
			}
		})
	}
}
