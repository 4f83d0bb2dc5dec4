package informers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func (b *bench) problem() error {
	b.source.mu.Lock()
	defer b.source.mu.Unlock()
	return b.source.problem()
}

func TestRun_ForbiddenKindAndRebuild(t *testing.T) {
	b := parallelBench(t)
	s := New(b.source.Cluster, b.source.config, b.source.log, func(string) {})
	b.source, b.full = s, s.Full()
	b.api.has("pods", aPod("web", "70"))
	b.api.has("nodes", aNode("7", corev1.ConditionTrue))
	b.api.denies("nodes")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	eventually(t, "caches without the kind", s.Synced)
	eventually(t, "open watches", func() bool { b.fullPass(t); return b.isVerified(t) })
	equal(t, "pods and nodes", []int{len(b.observe().Pods), len(b.observe().Nodes.Or(nil))}, []int{1, 0})
	b.api.denies("")
	eventually(t, "caches with the kind", func() bool { return len(b.observe().Nodes.Or(nil)) == 1 })
	equal(t, "verified with it", b.isVerified(t), false)
	eventually(t, "verified", func() bool { b.fullPass(t); return b.isVerified(t) })
	b.api.has("pods")
	s.Rebuild("a test")
	eventually(t, "rebuilt caches", func() bool { return s.Synced() && len(b.observe().Pods) == 0 })
	stop()
	<-ended
	equal(t, "open after the end", b.source.store("pods").watches, 0)
}

// A kind that may be listed and not be watched is in no observation of the caches, so there is none.
func TestRun_KindThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	for resource, code := range map[string]int{
		"network-attachment-definitions": http.StatusForbidden, "nodes": http.StatusNotFound,
		"sandboxreports": http.StatusForbidden, leaseResource: http.StatusMethodNotAllowed,
		"overlappingrangeipreservations": http.StatusForbidden, "namespaces": http.StatusForbidden,
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			var log syncBuffer
			b := newBench(t)
			s := New(b.source.Cluster, b.source.config, slog.New(slog.NewTextHandler(&log, nil)), func(string) {})
			s.settleTimeout = b.source.settleTimeout
			b.source, b.full = s, s.Full()
			b.api.has("nodes", aNode("7", corev1.ConditionTrue))
			b.api.refusesWatch(resource, code)
			go s.Run(t.Context())
			eventually(t, "synced caches", s.Synced)
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if o := b.fullPass(t); len(o.Nodes.Or(nil)) != 1 {
					t.Errorf("the full pass has %d nodes", len(o.Nodes.Or(nil)))
				}
				if _, err := s.List(t.Context()); !errors.Is(err, ErrCacheUnverified) || err == nil {
					t.Fatalf("an observation of the caches lacks the kind: %v", err)
				}
			}
			_, err := s.List(t.Context())
			if !errors.Is(err, ErrPolled) || !strings.Contains(err.Error(), resource) {
				t.Errorf("the error is %v", err)
			}
			equal(t, "rebuilt", b.rebuildReason(), "")
			text := log.String()
			if n := strings.Count(text, "level=WARN"); n != 1 || !strings.Contains(text, "resource="+resource+" verb=watch") {
				t.Errorf("%d warnings:\n%s", n, text)
			}
			b.api.refusesWatch(resource, 0)
			eventually(t, "verified caches", func() bool { b.fullPass(t); return b.isVerified(t) })
			equal(t, "nodes in the caches", len(b.observe().Nodes.Or(nil)), 1)
		})
	}
}

// RBAC allows the LIST again a moment before the caches try.
func TestList_KindThatOnlyAFullPassCouldRead(t *testing.T) {
	b := parallelBench(t)
	b.source.store("nodes").handleResult(t.Context(), "list", apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	b.fullPass(t)
	equal(t, "verified without nodes", b.isVerified(t), true)
	b.api.has("nodes", aNode("7", corev1.ConditionTrue))
	equal(t, "nodes of a full pass", len(b.fullPass(t).Nodes.Or(nil)), 1)
	equal(t, "verified without the node", b.isVerified(t), false)
}

// Reports that may not be listed are as unknown to the caches as to a full pass.
func TestObserve_ForbiddenReports(t *testing.T) {
	b := parallelBench(t)
	b.api.denies("sandboxreports")
	b.source.store("sandboxreports").handleResult(t.Context(), "list",
		apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	read := b.fullPass(t)
	equal(t, "verified", b.isVerified(t), true)
	cached := b.observe()
	equal(t, "unreadable", []bool{read.Reports.IsKnown(), cached.Reports.IsKnown()}, []bool{false, false})
	equal(t, "the error", cached.Reports.Why(), read.Reports.Why())
	equal(t, "warnings", cached.Warnings, read.Warnings)
}

// Reports whose CRD somebody deleted are unknown while agents have Leases, to the caches as to a full pass.
func TestObserve_ReportsThatAreNotServed(t *testing.T) {
	b := parallelBench(t)
	lease := aLease("7", "worker-1", "hash", time.Second)
	b.api.has("leases", lease)
	b.sets(t, "leases", lease)
	b.api.has("sandboxreports", aReport("7"))
	b.sets(t, "sandboxreports", aReport("7"))
	b.fullPass(t)
	equal(t, "reports in the caches", len(b.observe().Reports.Or(nil)), 1)
	b.api.NotServed = map[string]bool{"ip-reconcile.dev": true}
	b.removes(t, "sandboxreports", aReport("7"))
	b.source.store("sandboxreports").handleResult(t.Context(), "list", apierrors.NewNotFound(schema.GroupResource{}, ""))
	equal(t, "known before the next full pass", b.observe().Reports.IsKnown(), false)
	read := b.fullPass(t)
	cached := b.observe()
	equal(t, "known", []bool{read.Reports.IsKnown(), cached.Reports.IsKnown()}, []bool{false, false})
	equal(t, "the reason", cached.Reports.Why(),
		"the API server does not serve sandboxreports.ip-reconcile.dev, but node agents have Leases in namespace kube-system")
}

// A syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestRun_ForbiddenRequiredKind(t *testing.T) {
	b := parallelBench(t)
	b.isForbidden(t, "pods")
	equal(t, "synced", b.source.Synced(), false)
}

func TestStore_Failures(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "list", schema.GroupResource{}, "", "", 0, false)
	}
	for name, tt := range map[string]struct {
		ctx       context.Context
		err       error
		isFailure bool
	}{
		"no answer": {t.Context(), errors.New("connection refused"), true},
		"canceled":  {stopped, errors.New("connection refused"), false},
		"a 403":     {t.Context(), status(http.StatusForbidden), true},
		"a 404":     {t.Context(), status(http.StatusNotFound), true},
		"a 429":     {t.Context(), status(http.StatusTooManyRequests), false},
		"a 500":     {t.Context(), status(http.StatusInternalServerError), true},
		"a 410":     {t.Context(), status(http.StatusGone), false},
		"a 200":     {t.Context(), nil, false},
	} {
		b := newBench(t)
		b.fullPass(t)
		b.source.store("nodes").handleResult(tt.ctx, "watch", tt.err)
		equal(t, name, b.problem() != nil, tt.isFailure)
	}
}

func TestFull_VerifiesOnlyFailuresBeforeIt(t *testing.T) {
	b := parallelBench(t)
	pods := b.source.store("pods")
	b.fullPass(t)
	fails := func(changes int) {
		t.Helper()
		b.changes = nil
		pods.handleResult(t.Context(), "watch", errors.New("connection refused"))
		equal(t, "changes after a failure", len(b.changes), changes)
	}
	fails(1)
	fails(0)
	b.api.onList = func(_ context.Context, resource string, n int) {
		if resource == "pods" && n == 2 {
			fails(0)
		}
	}
	b.fullPass(t)
	if b.problem() == nil {
		t.Error("a full pass that began before the failure has verified the caches")
	}
	b.fullPass(t)
	if err := b.problem(); err != nil {
		t.Errorf("not verified: %v", err)
	}
	fails(1)
	b.changes = nil
	pods.addWatch()
	equal(t, "changes after a watch was opened", len(b.changes), 1)
}
