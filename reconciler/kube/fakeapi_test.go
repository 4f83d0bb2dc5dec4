package kube_test

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// The paths of a full pass.
const (
	pools        = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools"
	reservations = "/apis/whereabouts.cni.cncf.io/v1alpha1/overlappingrangeipreservations"
	nads         = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
	pods         = "/api/v1/pods"
	nodes        = "/api/v1/nodes"
	namespace    = "/api/v1/namespaces/kube-system"
	discovery    = "/apis/ip-reconcile.dev/v1alpha1"
	reports      = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	leases       = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

	inWhereabouts = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/"
	onePool       = inWhereabouts + "ippools/10.0.0.0-24"
	oneRes        = inWhereabouts + "overlappingrangeipreservations/10.0.0.5"
	onePod        = "/api/v1/namespaces/default/pods/web-0"
	podsOfDefault = "/api/v1/namespaces/default/pods"
)

// fakeAPI is an API server of an empty cluster without node agents, which tests fill. They also script answers, which
// it gives instead of its own; nil is 404.
type fakeAPI struct {
	*httptest.Server
	api      *fakeapi.Client
	mu       sync.Mutex
	answers  map[string]answer
	requests []*http.Request
	bodies   []string
	date     time.Time // of all answers; the machine's if zero
	undated  bool      // a proxy removes the dates
}

// answer answers the n-th request to a path, from 1.
type answer func(w http.ResponseWriter, r *http.Request, n int)

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{answers: map[string]answer{}, api: &fakeapi.Client{Server: fakeapi.NewServer()}}
	f.api.NotServed = map[string]bool{"ip-reconcile.dev": true, "kubevirt.io": true}
	f.api.Now = func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.undated {
			return time.Time{}
		}
		return cmp.Or(f.date, time.Now())
	}
	f.answers["/apis"] = object(map[string]any{"kind": "APIGroupList", "apiVersion": "v1",
		"groups": []any{map[string]any{"name": "apps", "versions": []any{map[string]any{"groupVersion": "apps/v1",
			"version": "v1"}}, "preferredVersion": map[string]any{"groupVersion": "apps/v1", "version": "v1"}}}})
	f.answers["/apis/whereabouts.cni.cncf.io/v1alpha1"] = serves("whereabouts.cni.cncf.io/v1alpha1", "ippools",
		"overlappingrangeipreservations")
	f.answers["/apis/k8s.cni.cncf.io/v1"] = serves("k8s.cni.cncf.io/v1", "network-attachment-definitions")
	f.answers["/apis/k8s.cni.cncf.io/v1alpha1"] = nil
	f.has(map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "kube-system", "resourceVersion": "1"}})
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.requests, f.bodies = append(f.requests, r), append(f.bodies, string(body))
	n, date, undated := len(f.to(r.URL.Path)), f.date, f.undated
	a, isScripted := f.answers[r.URL.Path]
	f.mu.Unlock()
	switch {
	case undated:
		w.Header()["Date"] = nil // net/http adds none then
	case !date.IsZero():
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
	}
	switch {
	case !isScripted:
		a = f.stored
	case a == nil:
		a = fails(http.StatusNotFound)
	}
	a(w, r, n)
}

// change changes what later requests are answered with, while earlier ones may still be served.
func (f *fakeAPI) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// stored answers with what the server has.
func (f *fakeAPI) stored(w http.ResponseWriter, r *http.Request, _ int) { f.api.ServeHTTP(w, r) }

// has stores objects at their own versions.
func (f *fakeAPI) has(objects ...map[string]any) {
	f.api.Lock()
	defer f.api.Unlock()
	for _, o := range objects {
		u := unstructured.Unstructured{Object: o}
		resource := map[string]string{"Namespace": fakeapi.Namespaces, "Pod": fakeapi.Pods, "Node": fakeapi.Nodes,
			"Lease": fakeapi.Leases, "IPPool": fakeapi.Pools, "OverlappingRangeIPReservation": fakeapi.Reservations,
			"SandboxReport": fakeapi.Reports}[u.GetKind()]
		f.api.Objects[fakeapi.At(resource, u.GetNamespace(), u.GetName())] = fakeapi.Encode(o)
	}
}

// hasAgents makes the server serve SandboxReports.
func (f *fakeAPI) hasAgents() { f.api.NotServed = nil }

// nowAnswers changes answers while requests may be in progress.
func (f *fakeAPI) nowAnswers(a answer, paths ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range paths {
		f.answers[path] = a
	}
}

// to returns the requests to a path. The caller holds mu, or the server is idle.
func (f *fakeAPI) to(path string) []*http.Request {
	return slices.DeleteFunc(slices.Clone(f.requests), func(r *http.Request) bool { return r.URL.Path != path })
}

func (f *fakeAPI) cluster(t *testing.T) *kube.Cluster {
	t.Helper()
	c, err := kube.New(&rest.Config{Host: f.URL, QPS: -1}, kube.Settings{
		Namespace: "kube-system", Identity: "us", Timeout: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler), Jitter: func(time.Duration) time.Duration { return 0 },
	})
	check(t, err)
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal compares values: an empty list is not nil.
func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func object(o map[string]any) answer { return status(fakeapi.OK(o)) }

// serves is the discovery document of a group and version with these resources.
func serves(version string, names ...string) answer {
	resources := []any{}
	for _, name := range names {
		resources = append(resources, map[string]any{"name": name, "kind": "X", "namespaced": true})
	}
	return object(map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
		"resources": resources})
}

// list is a page of objects; more is the token for the next page.
func list(more string, items ...map[string]any) answer {
	if items == nil {
		items = []map[string]any{}
	}
	return func(w http.ResponseWriter, r *http.Request, n int) {
		kind, version := map[string]string{pods: "PodList", podsOfDefault: "PodList", nodes: "NodeList",
			leases: "LeaseList"}[r.URL.Path], "v1"
		if kind == "" {
			kind = "List"
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/apis/"); ok {
			version = strings.Join(strings.SplitN(rest, "/", 3)[:2], "/")
		}
		object(map[string]any{"apiVersion": version, "kind": kind,
			"metadata": map[string]any{"resourceVersion": "100", "continue": more}, "items": items})(w, r, n)
	}
}

func pod(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "default",
		"name": name, "uid": "uid-" + name}, "status": map[string]any{"phase": "Running"}}
}

func pool(version string) map[string]any {
	return map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
		"metadata": map[string]any{"namespace": "kube-system", "name": "10.0.0.0-24", "resourceVersion": version},
		"spec": map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
			"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1"}}}}
}

// entryOf is the only entry of such a pool.
func entryOf(pool map[string]any) map[string]any {
	return pool["spec"].(map[string]any)["allocations"].(map[string]any)["5"].(map[string]any)
}

// fails answers with a Status as the API server does.
func fails(code int) answer {
	return status(fakeapi.Failure(code, map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusGone: metav1.StatusReasonExpired, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout:      metav1.StatusReasonTimeout, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	}[code], http.StatusText(code)))
}

func status(a fakeapi.Answer) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	}
}

// denies answers as an admission policy does: unlike for a failed test of a patch, it names the object.
func denies(why string) answer {
	a := fakeapi.OK(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity, Message: why,
		Details: &metav1.StatusDetails{Name: "10.0.0.0-24", Kind: "ippools"}})
	a.Status = http.StatusUnprocessableEntity
	return status(a)
}

// bare is an error of something in between, such as a load balancer: no Status.
func bare(code int) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "<html>", code) }
}

// breaksOff ends the connection, by a reset or in the middle of an answer.
func breaksOff(reset bool) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if reset {
			_ = conn.(*net.TCPConn).SetLinger(0)
		} else {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
				"1000\r\n\r\n{\"kind\":\"PodList\",\"items\":["))
		}
		conn.Close()
	}
}

// first gives some answers in turn, the last one for ever.
func first(answers ...answer) answer {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		answers[min(n, len(answers))-1](w, r, n)
	}
}

// late gives an answer after a while.
func late(d time.Duration, a answer) answer {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		time.Sleep(d)
		a(w, r, n)
	}
}
