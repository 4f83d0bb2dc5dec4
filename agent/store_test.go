package agent_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// apiServer is a fake API server with the behaviour on which an agent depends.
type apiServer struct {
	*testing.T
	config *rest.Config

	mu           sync.Mutex
	version      int
	clock        time.Time         // of managedFields, a minute later with each write
	objects      map[string]string // JSON by path
	fail         map[string]int    // status by method and kind, as "PUT leases"
	loseAnswer   map[string]bool   // executes the request and loses its answer, once
	requests     []string
	unknownField string // a field that the server's CustomResourceDefinition lacks
	dropField    string // a field that the server silently does not store
}

const (
	reportPath = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports/worker-1"
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/own-ns/leases/worker-1"
)

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{T: t, version: 100, clock: noon, objects: map[string]string{}, fail: map[string]int{},
		loseAnswer: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.config = &rest.Config{Host: server.URL, QPS: -1}
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(code int, reason metav1.StatusReason, why ...string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: "Failure", Code: int32(code), Reason: reason, Message: "refused: " + string(reason) + strings.Join(why, "")})
	}
	where := r.URL.Path
	body, _ := io.ReadAll(r.Body)
	var sent struct {
		APIVersion, Kind string
		Metadata         metav1.ObjectMeta
	}
	if r.Method != "GET" {
		if err := json.Unmarshal(body, &sent); err != nil || sent.APIVersion == "" || sent.Kind == "" {
			refuse(400, metav1.StatusReasonBadRequest)
			return
		}
	}
	if r.Method == "POST" {
		where += "/" + sent.Metadata.Name
	}
	kind := path.Base(path.Dir(where))
	s.requests = append(s.requests, r.Method+" "+kind)
	if code := s.fail[r.Method+" "+kind]; code != 0 {
		refuse(code, map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden,
			500: metav1.StatusReasonInternalError}[code])
		return
	}
	stored, there := s.objects[where]
	switch {
	case r.Method == "POST" && there:
		refuse(409, metav1.StatusReasonAlreadyExists)
		return
	case r.Method != "POST" && !there:
		refuse(404, metav1.StatusReasonNotFound)
		return
	case r.Method == "POST" && sent.Metadata.ResourceVersion != "":
		refuse(400, metav1.StatusReasonBadRequest)
		return
	case s.unknownField != "" && part(string(body), s.unknownField) != "" &&
		r.URL.Query().Get("fieldValidation") == "Strict":
		refuse(400, metav1.StatusReasonBadRequest, `strict decoding error: unknown field "`+s.unknownField+`"`)
		return
	case r.Method == "PUT" && sent.Metadata.ResourceVersion != meta(stored).ResourceVersion:
		refuse(409, metav1.StatusReasonConflict)
		return
	case r.Method != "GET":
		stored = s.put(where, string(body))
	}
	if s.loseAnswer[r.Method+" "+kind] {
		s.loseAnswer[r.Method+" "+kind] = false
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, stored)
}

// put writes an object with the next resourceVersion and the server's time.
func (s *apiServer) put(where, text string) string {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		s.Error(err)
	}
	delete(o, s.dropField)
	m := meta(text)
	s.version++
	s.clock = s.clock.Add(time.Minute)
	m.ResourceVersion, m.UID = strconv.Itoa(s.version), "some-uid"
	f := &metav1.FieldsV1{}
	f.SetRawString(`{"f:observedAt":{},"f:spec":{"f:renewTime":{}}}`)
	at := metav1.NewTime(s.clock)
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Operation: "Update", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: f}}
	o["metadata"], _ = json.Marshal(m)
	out, _ := json.Marshal(o)
	s.objects[where] = string(out)
	return string(out)
}

func part(text, key string) string {
	var o map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &o)
	return string(o[key])
}

func meta(text string) (m metav1.ObjectMeta) {
	_ = json.Unmarshal([]byte(part(text, "metadata")), &m)
	return m
}

// edit writes an object as another client.
func (s *apiServer) edit(where string, change func(o map[string]any)) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var o map[string]any
	if err := json.Unmarshal([]byte(s.objects[where]), &o); err != nil {
		s.Fatal(err)
	}
	change(o)
	text, _ := json.Marshal(o)
	s.put(where, string(text))
}

func (s *apiServer) remove(where string) { s.mu.Lock(); defer s.mu.Unlock(); delete(s.objects, where) }

// backup returns a function that restores the current content. The clock continues.
func (s *apiServer) backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, version := maps.Clone(s.objects), s.version
	return func() { s.mu.Lock(); defer s.mu.Unlock(); s.objects, s.version = objects, version }
}

func (s *apiServer) report() *v1alpha1.SandboxReport {
	s.Helper()
	out := &v1alpha1.SandboxReport{}
	if err := json.Unmarshal([]byte(s.objects[reportPath]), out); err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *apiServer) lease() *coordinationv1.Lease {
	s.Helper()
	out := &coordinationv1.Lease{}
	if err := json.Unmarshal([]byte(s.objects[leasePath]), out); err != nil {
		s.Fatal(err)
	}
	return out
}

// expectConfirmed checks that this report is stored and that the Lease confirms it.
func (s *apiServer) expectConfirmed(r *v1alpha1.SandboxReport) {
	s.Helper()
	equal(s, "hash of the report", podstate.Hash(s.report()), podstate.Hash(r))
	equal(s, "hash that the Lease confirms", s.lease().Annotations[v1alpha1.HashAnnotation], podstate.Hash(r))
}

// newStore returns an agent's store after Load.
func (s *apiServer) newStore() *agent.APIStore {
	s.Helper()
	a, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
	if err != nil {
		s.Fatal(err)
	}
	if _, err := a.Load(s.Context()); err != nil {
		s.Fatal(err)
	}
	return a
}

func (s *apiServer) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// expectRestore checks that err is a RestoreError.
func (s *apiServer) expectRestore(err error) {
	s.Helper()
	if !errors.As(err, new(*agent.RestoreError)) {
		s.Fatalf("no sign of a restore: %v", err)
	}
}

func (s *apiServer) expectNoRestoreNote() {
	s.Helper()
	for _, m := range []map[string]string{s.report().Annotations, s.lease().Annotations} {
		if v, ok := m[v1alpha1.RestoreAnnotation]; ok {
			s.Errorf("a restore is noted: %s", v)
		}
	}
}

func reportOf(ids ...string) *v1alpha1.SandboxReport {
	var parts []any
	for _, id := range ids {
		parts = append(parts, sandbox(id))
	}
	return agent.NextReport(nil, inspection(0, parts...))
}

func TestStore_Publish(t *testing.T) {
	s := newAPIServer(t)
	a, first := s.newStore(), reportOf("a")
	s.must(a.Publish(t.Context(), first))
	s.expectConfirmed(first)
	spec := s.lease().Spec
	equal(t, "holder", *spec.HolderIdentity, "worker-1")
	equal(t, "duration", *spec.LeaseDurationSeconds, int32(60))
	if since := time.Since(spec.RenewTime.Time); since < 0 || since > time.Minute {
		t.Errorf("renewed %s ago", since)
	}
	second := reportOf("a", "b")
	s.must(a.Publish(t.Context(), second))
	s.expectConfirmed(second)
	version := s.report().ResourceVersion
	renewed := podstate.LeaseRenewTime(s.lease())
	s.must(a.Renew(t.Context()))
	s.expectConfirmed(second)
	equal(t, "version of the report after a renewal", s.report().ResourceVersion, version)
	if !podstate.LeaseRenewTime(s.lease()).After(renewed) {
		t.Error("the Lease is not renewed")
	}
	for at, own := range map[string]bool{version: true, "1": true, "999": false, "": false} {
		equal(t, "own at "+at, a.IsOwn(at), own)
	}
	s.expectNoRestoreNote()
}

func TestStore_Load(t *testing.T) {
	s := newAPIServer(t)
	a, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
	s.must(err)
	none, err := a.Load(t.Context())
	if none != nil || err != nil {
		t.Errorf("without one: %v, %v", none, err)
	}
	s.must(s.newStore().Publish(t.Context(), reportOf("a")))
	for _, what := range []string{"GET sandboxreports", "GET leases"} {
		s.fail[what] = 500
		if r, err := a.Load(t.Context()); err == nil {
			t.Errorf("%s fails: %v", what, r)
		}
		s.fail = map[string]int{}
	}
	r, err := a.Load(t.Context())
	if err != nil || podstate.Hash(r) != podstate.Hash(reportOf("a")) {
		t.Errorf("got %v, %v", r, err)
	}
	s.must(a.Publish(t.Context(), reportOf("b")))
	s.expectConfirmed(reportOf("b"))
	s.expectNoRestoreNote()
}

func TestStore_KeepsForeignMetadata(t *testing.T) {
	s := newAPIServer(t)
	a := s.newStore()
	s.must(a.Publish(t.Context(), reportOf("a")))
	for _, where := range []string{reportPath, leasePath} {
		s.edit(where, func(o map[string]any) {
			m := o["metadata"].(map[string]any)
			m["labels"] = map[string]any{"team": "blue"}
			annotations, _ := m["annotations"].(map[string]any)
			if annotations == nil {
				annotations = map[string]any{}
			}
			annotations["note"], annotations[v1alpha1.HashAnnotation] = "x", "forged"
			m["annotations"] = annotations
			delete(o, "sandboxes")
		})
	}
	equal(t, "own", a.IsOwn(s.report().ResourceVersion), false)
	s.must(a.Publish(t.Context(), reportOf("b")))
	s.expectConfirmed(reportOf("b"))
	for what, m := range map[string]metav1.ObjectMeta{"report": s.report().ObjectMeta, "Lease": s.lease().ObjectMeta} {
		equal(t, what+"'s label", m.Labels["team"], "blue")
		equal(t, what+"'s annotation", m.Annotations["note"], "x")
	}
	s.expectNoRestoreNote()
}

func TestStore_RecreatesDeletedObjects(t *testing.T) {
	for name, gone := range map[string][]string{"the report": {reportPath}, "the Lease": {leasePath}, "both": {reportPath,
		leasePath}} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.newStore()
			s.must(a.Publish(t.Context(), reportOf("a")))
			for _, where := range gone {
				s.remove(where)
			}
			s.must(a.Publish(t.Context(), reportOf("a")))
			s.expectConfirmed(reportOf("a"))
			s.expectNoRestoreNote()
		})
	}
}
