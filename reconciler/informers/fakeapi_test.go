package informers

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A fakeAPI is an API server whose objects a test sets, without events for watches.
type fakeAPI struct {
	*fakeapi.Client
	// onList is called for each list, with the number of lists of the resource.
	onList func(ctx context.Context, resource string, n int)
	lists  map[string]int
	// refused are the codes with which all requests for a resource are refused, and unwatched those for watches.
	refused, unwatched map[string]int
	written            chan string // the bodies of writes of Leases
}

func newFakeAPI() *fakeAPI {
	f := &fakeAPI{Client: &fakeapi.Client{Server: fakeapi.NewServer(), Name: "us"}, lists: map[string]int{},
		written: make(chan string, 9)}
	f.has("namespaces", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-system", ResourceVersion: "1"}})
	f.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		resource, code := path.Base(q.Resource), 0
		if code = f.refused[resource]; code == 0 && q.Query.Has("watch") {
			code = f.unwatched[resource]
		}
		if code != 0 {
			a := fakeapi.Failure(code, map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
				http.StatusNotFound:         metav1.StatusReasonNotFound,
				http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed}[code], "")
			return &a
		}
		if q.Writes() && resource == "leases" {
			f.written <- string(q.Body)
		}
		return nil
	}
	return f
}

func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	// A request for one object of a list reads the revision.
	if r.Method == http.MethodGet && !query.Has("watch") && query.Get("limit") != "1" {
		f.Lock()
		f.lists[resource]++
		n, onList := f.lists[resource], f.onList
		f.Unlock()
		if onList != nil {
			onList(r.Context(), resource, n)
		}
	}
	return f.Client.RoundTrip(r)
}

// has replaces the objects of a resource, which keep their versions.
func (f *fakeAPI) has(resource string, objects ...client.Object) {
	f.Lock()
	defer f.Unlock()
	full := map[string]string{"namespaces": fakeapi.Namespaces, "pods": fakeapi.Pods, "nodes": fakeapi.Nodes,
		"leases": fakeapi.Leases, "ippools": fakeapi.Pools, "sandboxreports": fakeapi.Reports}[resource]
	for _, k := range fakeapi.ListOf(f.Objects, full, "", "") {
		delete(f.Objects, k)
	}
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		f.Objects[fakeapi.At(full, o.GetNamespace(), o.GetName())] = fakeapi.Encode(fakeapi.Decode(text))
	}
}

// isAt sets the revision, as a restore does.
func (f *fakeAPI) isAt(revision uint64) {
	f.Lock()
	defer f.Unlock()
	f.Revision = revision
}

// denies makes RBAC forbid a resource, "" for none.
func (f *fakeAPI) denies(resource string) {
	f.Lock()
	defer f.Unlock()
	f.refused = map[string]int{resource: http.StatusForbidden}
}

// refusesWatch refuses watches of a resource with a code, 0 for none.
func (f *fakeAPI) refusesWatch(resource string, code int) {
	f.Lock()
	defer f.Unlock()
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

// parallelBench is the bench of a test that runs beside others.
func parallelBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return newBench(t)
}

// benchWithPod is a parallelBench whose last full pass had a pod.
func benchWithPod(t *testing.T) *bench {
	t.Helper()
	b := parallelBench(t)
	b.api.has("pods", aPod("web", "70"))
	b.sets(t, "pods", aPod("web", "70"))
	b.fullPass(t)
	return b
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{api: newFakeAPI()}
	config := &rest.Config{Host: "http://api", QPS: -1, Transport: b.api}
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
func (b *bench) observe() *facts.Observation {
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

// equal compares values: an empty list is not nil.
func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}
