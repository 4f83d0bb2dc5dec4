package informers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A fakeAPI is an API server that lists objects of the test.
type fakeAPI struct {
	*httptest.Server
	mu       sync.Mutex
	revision uint64
	objects  map[string][]client.Object // by resource
	// onList is called for each list, with the number of lists of the resource.
	onList func(resource string, n int)
	lists  map[string]int
	denied string // a resource that RBAC forbids
	// noReports is set if SandboxReports are not served.
	noReports atomic.Bool
	// unwatched are the codes that watches are refused with, by resource.
	unwatched map[string]int
	posted    chan string // the bodies of POSTs
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{revision: 100, objects: map[string][]client.Object{}, lists: map[string]int{},
		posted: make(chan string, 9)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	w.Header().Set("Content-Type", "application/json")
	answer := func(o any) { _ = json.NewEncoder(w).Encode(o) }
	switch {
	case resource == "selfsubjectaccessreviews":
		answer(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"status": map[string]any{"allowed": true}})
		return
	case resource == "kube-system":
		answer(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system"}})
		return
	case resource == kube.RestoreLease: // does not exist
		w.WriteHeader(http.StatusNotFound)
		answer(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	case f.noReports.Load() && resource == "v1alpha1":
		w.WriteHeader(http.StatusNotFound)
		answer(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	case resource == "apis":
		answer(map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": []any{map[string]any{"name": "apps"}}})
		return
	case resource == "v1alpha1": // discovery
		answer(map[string]any{"apiVersion": "v1", "kind": "APIResourceList"})
		return
	}
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		f.posted <- string(body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
		return
	}
	f.mu.Lock()
	denied, onList, refusal := f.denied == resource, f.onList, f.unwatched[resource]
	if r.URL.Query().Get("limit") != "1" { // such a request reads the revision
		f.lists[resource]++
	}
	n := f.lists[resource]
	f.mu.Unlock()
	if r.URL.Query().Has("watch") && refusal != 0 {
		denied = true
	} else {
		refusal = http.StatusForbidden
	}
	if denied {
		w.WriteHeader(refusal)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound:         metav1.StatusReasonNotFound,
			http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed}[refusal]
		answer(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: reason, Code: int32(refusal)})
		return
	}
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"): // not supported
		w.WriteHeader(http.StatusBadRequest)
		return
	case query.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if onList != nil {
		onList(resource, n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	version := "v1"
	kind := cmp.Or(map[string]string{"pods": "PodList", "nodes": "NodeList", "leases": "LeaseList",
		"namespaces": "NamespaceList"}[resource], "List")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/apis/"); ok {
		version = strings.Join(strings.SplitN(rest, "/", 3)[:2], "/")
	}
	answer(map[string]any{"apiVersion": version, "kind": kind,
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(f.revision)},
		"items":    append([]client.Object{}, f.objects[resource]...)})
}

// has replaces the objects of a resource.
func (f *fakeAPI) has(resource string, objects ...client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[resource] = objects
}

// denies makes RBAC forbid a resource, "" for none.
func (f *fakeAPI) denies(resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = resource
}

// refusesWatch refuses watches of a resource with a code, 0 for none.
func (f *fakeAPI) refusesWatch(resource string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unwatched = map[string]int{resource: code}
}

// A bench is a Source whose stores the test fills.
type bench struct {
	source  *Source
	full    reconciler.Source
	api     *fakeAPI
	changes []string // calls of onChange
	broken  []string // calls of OnRebuild
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{api: newFakeAPI(t)}
	config := &rest.Config{Host: b.api.URL, QPS: -1}
	log := slog.New(slog.DiscardHandler)
	cluster, err := kube.New(config, kube.Settings{
		Namespace: "kube-system", Identity: "us", Timeout: 5 * time.Second, Log: log,
		Jitter: func(time.Duration) time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := New(cluster, config, log, func(resource string) { b.changes = append(b.changes, resource) })
	s.settleTimeout, s.OnRebuild = 100*time.Millisecond, func(why string) { b.broken = append(b.broken, why) }
	b.source, b.full = s, s.Full()
	_, err = cluster.Revision(t.Context(), core("pods"), "", "") // its answer has the API server's time
	must(t, err)
	for _, k := range s.stores {
		k.addWatch()
		b.lists(t, k.resource.Resource)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lists replaces the objects of a store, as a Reflector does with a list.
func (b *bench) lists(t *testing.T, resource string, objects ...any) {
	t.Helper()
	must(t, b.source.store(resource).Replace(objects, "1"))
}

// sets delivers a new or changed object.
func (b *bench) sets(t *testing.T, resource string, o client.Object) {
	t.Helper()
	must(t, b.source.store(resource).Add(o.DeepCopyObject()))
}

// removes delivers a deletion.
func (b *bench) removes(t *testing.T, resource string, o client.Object) {
	t.Helper()
	must(t, b.source.store(resource).Delete(o))
}

// observe returns the observation of the stores.
func (b *bench) observe() *judge.Observation {
	b.source.mu.Lock()
	defer b.source.mu.Unlock()
	return b.source.observe()
}

func aPod(name, version string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = "default", name, "uid-1", version
	p.Status.Phase = corev1.PodRunning
	for _, e := range edits {
		e(p)
	}
	return p
}

// aPool has one allocation of a pod.
func aPool(version, pod string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ippool.PoolResource.GroupVersion().String(), "kind": "IPPool",
		"metadata": map[string]any{"namespace": "kube-system", "name": "10.0.0.0-24", "uid": "uid-pool",
			"resourceVersion": version},
		"spec": map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
			"5": map[string]any{"id": "box-1", "podref": "default/" + pod, "ifname": "net1"}}}}}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
