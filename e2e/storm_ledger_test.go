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
// by then is gone in the first version that is checked.
func (l *ledger) check(pools, reservations *history, now uint64) (freed, bare []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.all {
		until := h.until
		if until == 0 {
			until = now
		}
		for _, v := range pools.during(h.pool, h.from, until) {
			if !h.recorded(v.object) {
				freed = append(freed, fmt.Errorf("at revision %d there is no entry for %s, which lived from %d to %d", v.revision, h, h.from, until))
				break
			}
		}
		for _, v := range reservations.during(h.reservation, h.from, until) {
			if !h.reserved(v.object) {
				bare = append(bare, fmt.Errorf("at revision %d there is no reservation %s for %s, which lived from %d to %d", v.revision, h.reservation, h, h.from, until))
				break
			}
		}
	}
	return append(freed, l.twice...), bare
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
