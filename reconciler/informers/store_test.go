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
	"k8s.io/apimachinery/pkg/watch"
)

// eventually waits for what comes true soon.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func (b *bench) doubt() error {
	b.source.mu.Lock()
	defer b.source.mu.Unlock()
	return b.source.doubt()
}

// The whole Source, which lists and watches.
func TestRun_KindsThatMayBeWatchedLaterAndARebuild(t *testing.T) {
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
	eventually(t, "the caches without the kind", s.Synced)
	eventually(t, "watches that are open", func() bool { b.fullPass(t); return b.verified(t) })
	equal(t, "pods and nodes", []int{len(b.observe().Pods), len(b.observe().Nodes)}, []int{1, 0})
	b.api.denies("")
	eventually(t, "the kind that may be watched", func() bool { return len(b.observe().Nodes) == 1 })
	equal(t, "verified since", b.verified(t), false)
	eventually(t, "verified with it", func() bool { b.fullPass(t); return b.verified(t) })
	b.api.has("pods")
	s.Rebuild("a test")
	eventually(t, "the rebuilt caches", func() bool { return s.Synced() && len(b.observe().Pods) == 0 })
	stop()
	<-ended
	equal(t, "open after the end", b.source.store("pods").open, 0)
}

func TestRun_RequiredKindThatMayNotBeWatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.source.store("pods").ended(t.Context(), apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	equal(t, "synced", b.source.Synced(), false)
}

func TestStore_WatchIsOpenUntilItEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fullPass(t)
	pods := b.source.store("pods")
	pods.closed()
	if b.doubt() == nil {
		t.Error("one that was closed is open")
	}
	pods.opened()
	if err := b.doubt(); err != nil {
		t.Error(err)
	}
	w := openWatch{watch.NewFake(), pods.closed}
	w.Stop()
	if b.doubt() == nil {
		t.Error("one that was stopped is open")
	}
}

func TestStore_WhatCountsAsAFailure(t *testing.T) {
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
		"no answer":                 {t.Context(), errors.New("connection refused"), true},
		"no answer, which we ended": {stopped, errors.New("connection refused"), false},
		"a 403":                     {t.Context(), status(http.StatusForbidden), true},
		"a 404":                     {t.Context(), status(http.StatusNotFound), true},
		"a 429":                     {t.Context(), status(http.StatusTooManyRequests), false},
		"a 500":                     {t.Context(), status(http.StatusInternalServerError), true},
		"a 410":                     {t.Context(), status(http.StatusGone), false},
		"a 200":                     {t.Context(), nil, false},
	} {
		b := newBench(t)
		b.fullPass(t)
		b.source.store("nodes").ended(tt.ctx, tt.err)
		equal(t, name, b.doubt() != nil, tt.isFailure)
	}
}

func TestStore_FailureIsForgivenByACheckThatBeganAfterIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pods := b.source.store("pods")
	b.fullPass(t)
	fails := func(changes int) {
		t.Helper()
		b.changed = nil
		pods.ended(t.Context(), errors.New("connection refused"))
		equal(t, "changes by a failure", len(b.changed), changes)
	}
	fails(1)
	fails(0)
	b.api.onList = func(resource string, n int) {
		if resource == "pods" && n == 2 {
			fails(0)
		}
	}
	b.fullPass(t)
	if b.doubt() == nil {
		t.Error("a full pass from before a failure forgave it")
	}
	b.fullPass(t)
	if err := b.doubt(); err != nil {
		t.Errorf("not forgiven: %v", err)
	}
	fails(1)
	b.changed = nil
	pods.opened()
	equal(t, "changes by a watch that was opened", len(b.changed), 1)
}
