package agent_test

import (
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// apiServer is a fake API server whose clock is a minute later with each write. Tests refuse requests and lose answers.
type apiServer struct {
	*testing.T
	api    *fakeapi.Client
	config *rest.Config

	clock        time.Time
	fail         map[string]int  // status by method and kind, as "PUT leases"
	loseAnswer   map[string]bool // executes the request and loses its answer, once
	requests     []string
	unknownField string // a field that the server's CustomResourceDefinition lacks
	dropField    string // a field that the server silently does not store
}

var (
	reportKey = fakeapi.At(fakeapi.Reports, "", "worker-1")
	leaseKey  = fakeapi.At(fakeapi.Leases, "own-ns", "worker-1")
)

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{T: t, clock: noon, fail: map[string]int{}, loseAnswer: map[string]bool{}}
	s.api = &fakeapi.Client{Server: fakeapi.NewServer(), Name: "agent", Instead: s.instead, After: s.after}
	s.api.Now = func() time.Time { return s.clock }
	s.config = &rest.Config{Host: "http://api", QPS: -1, Transport: s.api}
	return s
}

func kindOf(q *fakeapi.Request) string { return q.Method + " " + path.Base(q.Resource) }

func (s *apiServer) instead(q *fakeapi.Request) *fakeapi.Answer {
	s.requests = append(s.requests, kindOf(q))
	refused := func(code int, why string) *fakeapi.Answer {
		a := fakeapi.Failure(code, map[int]metav1.StatusReason{400: metav1.StatusReasonBadRequest,
			403: metav1.StatusReasonForbidden, 409: metav1.StatusReasonConflict,
			500: metav1.StatusReasonInternalError}[code], "refused: "+why)
		return &a
	}
	if code := s.fail[kindOf(q)]; code != 0 {
		return refused(code, "")
	}
	if !q.Writes() {
		return nil
	}
	content := fakeapi.Decode(q.Body)
	if content[s.unknownField] != nil && q.Query.Get("fieldValidation") == "Strict" {
		return refused(400, `strict decoding error: unknown field "`+s.unknownField+`"`)
	}
	delete(content, s.dropField)
	q.Body, _ = json.Marshal(content)
	s.clock = s.clock.Add(time.Minute)
	return nil
}

func (s *apiServer) after(q *fakeapi.Request, a fakeapi.Answer) fakeapi.Answer {
	if s.loseAnswer[kindOf(q)] {
		s.loseAnswer[kindOf(q)] = false
		return fakeapi.Answer{Err: io.ErrUnexpectedEOF}
	}
	return a
}

// edit writes an object as another client.
func (s *apiServer) edit(k fakeapi.Key, change func(o map[string]any)) {
	s.clock = s.clock.Add(time.Minute)
	o := fakeapi.Decode(s.api.Get(k).JSON)
	change(o)
	s.api.Put(k, o, s.clock, "another")
}

// annotate sets an annotation of an object.
func annotate(o map[string]any, name, value string) {
	if err := unstructured.SetNestedField(o, value, "metadata", "annotations", name); err != nil {
		panic(err)
	}
}

// backup returns a function that restores the current content. The clock continues.
func (s *apiServer) backup() (restore func()) {
	b := s.api.Backup()
	return func() { s.api.Restore(b) }
}

func stored[T any](s *apiServer, k fakeapi.Key) *T {
	s.Helper()
	o, out := s.api.Get(k), new(T)
	if o == nil {
		s.Fatalf("there is no %s", k)
	}
	s.must(json.Unmarshal(o.JSON, out))
	return out
}

func (s *apiServer) report() *v1alpha1.SandboxReport {
	return stored[v1alpha1.SandboxReport](s, reportKey)
}

func (s *apiServer) lease() *coordinationv1.Lease { return stored[coordinationv1.Lease](s, leaseKey) }

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
	check(s, err)
	if _, err := a.Load(s.Context()); err != nil {
		s.Fatal(err)
	}
	return a
}

// newPublished returns a server and the store of an agent that has published reportOf("a").
func newPublished(t *testing.T) (*apiServer, *agent.APIStore) {
	t.Helper()
	s := newAPIServer(t)
	a := s.newStore()
	s.must(a.Publish(t.Context(), reportOf("a")))
	return s, a
}

// loseRenewal renews the Lease, and restores etcd to before that.
func (s *apiServer) loseRenewal(a *agent.APIStore) {
	s.Helper()
	restore := s.backup()
	s.must(a.Renew(s.Context()))
	restore()
}

func (s *apiServer) must(err error) {
	s.Helper()
	check(s, err)
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

// nonce is that of the Lease, and the report has none.
func (s *apiServer) nonce() string {
	s.Helper()
	nonce := s.lease().Annotations[v1alpha1.RestoreAnnotation]
	if on := s.report().Annotations[v1alpha1.RestoreAnnotation]; nonce == "" || on != "" {
		s.Errorf("the Lease's nonce is %q, and the report has %q", nonce, on)
	}
	return nonce
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

// A report that is denied for its size says how large it is, and is not confirmed.
func TestStore_ReportTooLarge(t *testing.T) {
	s := newAPIServer(t)
	a := s.newStore()
	s.fail["POST sandboxreports"] = 413
	err := a.Publish(t.Context(), reportOf("a", "b"))
	if err == nil || !strings.Contains(err.Error(), " bytes in JSON, 2 sandboxes and 0 attachments") {
		t.Errorf("got %v", err)
	}
	if slices.Contains(s.requests, "POST leases") {
		t.Error("a Lease confirms it")
	}
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
	s, a := newPublished(t)
	for _, where := range []fakeapi.Key{reportKey, leaseKey} {
		s.edit(where, func(o map[string]any) {
			o["metadata"].(map[string]any)["labels"] = map[string]any{"team": "blue"}
			annotate(o, "note", "x")
			annotate(o, v1alpha1.HashAnnotation, "forged")
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
	for name, gone := range map[string][]fakeapi.Key{"the report": {reportKey}, "the Lease": {leaseKey},
		"both": {reportKey, leaseKey}} {
		t.Run(name, func(t *testing.T) {
			s, a := newPublished(t)
			for _, where := range gone {
				s.api.Delete(where)
			}
			s.must(a.Publish(t.Context(), reportOf("a")))
			s.expectConfirmed(reportOf("a"))
			s.expectNoRestoreNote()
		})
	}
}
