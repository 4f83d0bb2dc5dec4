package informers

import (
	"context"
	"errors"
	"net/http"
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
	t.Parallel()
	b := newBench(t)
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

func TestRun_ForbiddenRequiredKind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.source.store("pods").handleResult(t.Context(), apierrors.NewForbidden(schema.GroupResource{}, "", nil))
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
		b.source.store("nodes").handleResult(tt.ctx, tt.err)
		equal(t, name, b.problem() != nil, tt.isFailure)
	}
}

func TestFull_VerifiesOnlyFailuresBeforeIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pods := b.source.store("pods")
	b.fullPass(t)
	fails := func(changes int) {
		t.Helper()
		b.changes = nil
		pods.handleResult(t.Context(), errors.New("connection refused"))
		equal(t, "changes after a failure", len(b.changes), changes)
	}
	fails(1)
	fails(0)
	b.api.onList = func(resource string, n int) {
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
