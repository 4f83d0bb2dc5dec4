package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// A history has every version of the objects of a kind, by name and in the order of etcd's revisions. It follows etcd:
// a GET may miss versions, and API servers and etcd itself may restart.
type history struct {
	client dynamic.ResourceInterface
	mu     sync.Mutex
	of     map[string][]version
	broken error
}

// A version is an object from a revision on. The object is nil after its deletion.
type version struct {
	revision uint64
	object   *unstructured.Unstructured
}

// spec is a text field of the object's spec.
func (v version) spec(field string) (text string) {
	if v.object != nil {
		text, _, _ = unstructured.NestedString(v.object.Object, "spec", field)
	}
	return text
}

// An etcdPair is a key with its value in the JSON of etcd's gateway.
type etcdPair struct {
	Key, Value  []byte
	ModRevision uint64 `json:"mod_revision,string"`
}

// record starts a history of whereabouts' objects, of reports, or of the Leases in kube-system. It ends with the test.
func (s *stage) record(t testing.TB, resource schema.GroupVersionResource) *history {
	t.Helper()
	h := &history{client: s.of(resource), of: map[string][]version{}}
	prefix := "/registry/" + resource.Group + "/" + resource.Resource
	switch resource {
	case leasesResource:
		prefix = "/registry/leases/" + metav1.NamespaceSystem
	case sandboxReports:
		h.client = s.Dynamic().Resource(resource)
	}
	ask := map[string]any{"key": []byte(prefix + "/"), "range_end": []byte(prefix + "0")} // 0 follows /
	var now struct {
		Header struct {
			Revision uint64 `json:",string"`
		}
		KVs []etcdPair
	}
	check(t, s.AskEtcd(t.Context(), "kv/range", ask, &now))
	for _, kv := range now.KVs {
		h.add(kv, false)
	}
	go func() {
		for from := now.Header.Revision + 1; t.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
			ask["start_revision"] = fmt.Sprint(from)
			from = h.follow(t.Context(), s.EtcdServer(), map[string]any{"create_request": ask}, from)
		}
	}()
	return h
}

func (h *history) add(kv etcdPair, deleted bool) {
	v := version{revision: kv.ModRevision}
	if !deleted {
		var err error
		if v.object, err = storedObject(kv.Value); err != nil {
			h.broken = err
			return
		}
		v.object.SetResourceVersion(fmt.Sprint(v.revision))
	}
	name := path.Base(string(kv.Key))
	h.of[name] = append(h.of[name], v)
}

// storedObject decodes an object as etcd stores it: custom resources are JSON, others protobuf.
func storedObject(value []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if bytes.HasPrefix(value, []byte("{")) {
		return o, json.Unmarshal(value, &o.Object)
	}
	typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	return o, err
}

// follow reads changes from a revision on until the connection ends, and returns the revision to continue from.
func (h *history) follow(ctx context.Context, server string, ask map[string]any, from uint64) uint64 {
	body, _ := json.Marshal(ask)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return from
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return from
	}
	defer resp.Body.Close()
	for answers := json.NewDecoder(resp.Body); ; {
		var answer struct {
			Result struct {
				CompactRevision string `json:"compact_revision"`
				Events          []struct {
					Type string
					KV   etcdPair
				}
			}
		}
		if answers.Decode(&answer) != nil {
			return from
		}
		h.mu.Lock()
		if compacted := answer.Result.CompactRevision; compacted != "" && compacted != "0" {
			h.broken = fmt.Errorf("etcd has forgotten what was before revision %s", compacted)
		}
		for _, e := range answer.Result.Events {
			h.add(e.KV, e.Type == "DELETE")
			from = e.KV.ModRevision + 1
		}
		h.mu.Unlock()
	}
}

func revisionOf(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}

// catchUp waits until the history has the present state.
func (h *history) catchUp(ctx context.Context) error {
	list, err := h.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		h.mu.Lock()
		broken, behind := h.broken, slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
			versions := h.of[o.GetName()]
			return len(versions) == 0 || versions[len(versions)-1].revision < revisionOf(&o)
		})
		h.mu.Unlock()
		switch {
		case broken != nil || !behind:
			return broken
		case time.Now().After(deadline):
			return fmt.Errorf("the history lags behind revision %s", list.GetResourceVersion())
		}
	}
}

// during returns the versions of an object between two revisions, both included.
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

// first returns the revision of the first version of an object after a revision for which is holds; false if there is
// none.
func (h *history) first(name string, after uint64, is func(*unstructured.Unstructured) bool) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.of[name] {
		if v.revision > after && is(v.object) {
			return v.revision, true
		}
	}
	return 0, false
}

// step returns a version of an object and the one after it.
func (h *history) step(name string, revision uint64) (before, after *unstructured.Unstructured) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions := h.of[name]
	i := slices.IndexFunc(versions, func(v version) bool { return v.revision == revision })
	if i < 0 || i+1 == len(versions) {
		return nil, nil
	}
	return versions[i].object, versions[i+1].object
}

// takenOver counts the allocations that got another id under the same key and podref, as an ADD for a returning pod
// does.
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

// entriesOf are a pool's allocations by key; a deleted pool has none.
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
