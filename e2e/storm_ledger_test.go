//go:build slow

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// A holding is one address of one sandbox from ADD's return on, until its DEL
// begins or the sandbox is ended without one.
type holding struct {
	network           *stormNetwork
	pool, reservation string
	id, ifName        string
	podRef, address   string
	node, uid         string // of the pod; "" in a storm
	closed            bool   // its network namespace is gone
	from, until       uint64 // revisions; until is 0 while it lives
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

func (h *holding) reserved(reservation *unstructured.Unstructured) bool {
	if reservation == nil {
		return false
	}
	podRef, _, _ := unstructured.NestedString(reservation.Object, "spec", "podref")
	return podRef == h.podRef
}

// A ledger has all holdings, and notices when two live sandboxes share an address.
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

// check goes through the histories: each holding's entry is in every version of
// its pool, and its reservation is there all the time. Between ADD's return and
// the revision that is read after it nothing is missed: an entry that is gone
// by then is gone in the first version that is checked. Where no version until then
// had it, whereabouts itself has lost it (see docs/safety.md): such a holding is in
// unwritten, and its entry is checked from the version on that a repair has made.
func (l *ledger) check(pools, reservations *history, now uint64) (freed, bare []error, unwritten []*holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.all {
		until := h.until
		if until == 0 {
			until = now
		}
		entries, reserved := pools.during(h.pool, h.from, until), reservations.during(h.reservation, h.from, until)
		if first, ok := pools.first(h.pool, h.recorded); !ok || first > h.from {
			unwritten = append(unwritten, h)
			entries, reserved = nil, nil // a repair makes the reservation after the entry
			if ok {
				entries = pools.during(h.pool, first, until)
			}
		}
		if i := slices.IndexFunc(entries, func(v version) bool { return !h.recorded(v.object) }); i >= 0 {
			freed = append(freed, fmt.Errorf("at revision %d there is no entry for %s, which lived from %d to %d", entries[i].revision, h, h.from, until))
		}
		if i := slices.IndexFunc(reserved, func(v version) bool { return !h.reserved(v.object) }); i >= 0 {
			bare = append(bare, fmt.Errorf("at revision %d there is no reservation %s for %s, which lived from %d to %d", reserved[i].revision, h.reservation, h, h.from, until))
		}
	}
	return append(freed, l.twice...), bare, unwritten
}

// leaks compares what is stored with who lives: a sentence for each entry and
// reservation too many or too few.
func (l *ledger) leaks(ctx context.Context, poolsNow, reservationsNow dynamic.ResourceInterface) (leaks []string, err error) {
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
			leaks = append(leaks, "left over: "+text)
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
