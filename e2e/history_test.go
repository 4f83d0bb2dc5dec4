package e2e

import (
	"context"
	"errors"
	"fmt"
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
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.broken == nil {
			h.broken = errors.New("the watch ended")
		}
		close(h.news)
		h.news = make(chan struct{})
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

// first returns the revision of the first version of an object that is so; false if none is.
func (h *history) first(name string, is func(*unstructured.Unstructured) bool) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.of[name] {
		if is(v.object) {
			return v.revision, true
		}
	}
	return 0, false
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
