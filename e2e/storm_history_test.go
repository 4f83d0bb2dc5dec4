package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// A history has every version that objects of a kind have had,
// in the order of etcd's revisions: what a GET may miss, a watch shows.
type history struct {
	client dynamic.ResourceInterface
	mu     sync.Mutex
	of     map[string][]version
	news   chan struct{} // closed and recreated at each event
	broken error
}

// A version is what an object was from a revision on; no object: it was gone.
type version struct {
	revision uint64
	object   *unstructured.Unstructured
}

// record begins a history. It ends with the context.
func record(ctx context.Context, client dynamic.ResourceInterface) (*history, error) {
	h := &history{client: client, of: map[string][]version{}, news: make(chan struct{})}
	list, err := h.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		h.of[list.Items[i].GetName()] = []version{{revisionOf(&list.Items[i]), &list.Items[i]}}
	}
	w, err := h.client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, err
	}
	go func() {
		for e := range w.ResultChan() {
			h.mu.Lock()
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != "ERROR" {
				v := version{revision: revisionOf(o), object: o}
				if e.Type == "DELETED" {
					v.object = nil
				}
				h.of[o.GetName()] = append(h.of[o.GetName()], v)
			} else {
				h.broken = fmt.Errorf("the watch ended: %v", e.Object)
			}
			close(h.news)
			h.news = make(chan struct{})
			h.mu.Unlock()
		}
	}()
	return h, nil
}

func revisionOf(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}

// catchUp waits until the history has what there is now.
func (h *history) catchUp(ctx context.Context) error {
	list, err := h.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for {
		h.mu.Lock()
		there, news, broken := 0, h.news, h.broken
		for _, o := range list.Items {
			if vs := h.of[o.GetName()]; len(vs) > 0 && vs[len(vs)-1].revision >= revisionOf(&o) {
				there++
			}
		}
		h.mu.Unlock()
		if broken != nil || there == len(list.Items) {
			return broken
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("the watch lags behind: %w", ctx.Err())
		}
	}
}

// during returns the versions that an object had at any time between two
// revisions, both included.
func (h *history) during(name string, from, to uint64) []version {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.of[name]
	if len(all) == 0 || all[0].revision > from {
		all = append([]version{{}}, all...) // it did not exist at first
	}
	var found []version
	for i, v := range all {
		if v.revision <= to && (i+1 == len(all) || all[i+1].revision > from) {
			found = append(found, v)
		}
	}
	return found
}

func (h *history) size() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, versions := range h.of {
		n += len(versions)
	}
	return n
}

// takenOver counts the entries that got another id under the same key and
// podref: what ADD does for a pod that comes back.
func (h *history) takenOver() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, versions := range h.of {
		for i := range versions[1:] {
			before, after := entriesOf(versions[i].object), entriesOf(versions[i+1].object)
			for key, e := range after {
				if b, ok := before[key]; ok && b["podref"] == e["podref"] && b["id"] != e["id"] {
					n++
				}
			}
		}
	}
	return n
}

// entriesOf are a pool's allocations by key; none of a pool that is gone.
func entriesOf(pool *unstructured.Unstructured) map[string]map[string]any {
	entries := map[string]map[string]any{}
	if pool == nil {
		return entries
	}
	all, _, _ := unstructured.NestedMap(pool.Object, "spec", "allocations")
	for key, e := range all {
		entries[key], _ = e.(map[string]any)
	}
	return entries
}

// A holding is one address of one sandbox from ADD's return on, until its DEL
// begins or the sandbox is ended without one.
type holding struct {
	network           *stormNetwork
	pool, reservation string
	id, ifName        string
	podRef, address   string
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
// by then is gone in the first version that is looked at.
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
