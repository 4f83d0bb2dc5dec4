package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A guardedCluster is a cluster as a guard sees it, with its fence. Its parts are changed
// by the test.
type guardedCluster struct {
	mu       sync.Mutex
	away     bool
	hangs    bool
	revision uint64
	answer   kube.Answer // but for the revision
	leases   map[string][]string
	restored []string // what the source was told

	raised, lowered, left int
	up                    time.Time // since when the fence stands; zero if it does not
	busy                  bool      // the Leases are not to be had
	age                   time.Duration
	dropped, leads        bool
	know, others          string
	passes                int
}

func (w *guardedCluster) Ping(ctx context.Context) (kube.Answer, error) {
	w.mu.Lock()
	away, hangs, answer := w.away, w.hangs, w.answer
	answer.Revision = w.revision
	w.answer.HasReconnected = false
	w.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return kube.Answer{}, ctx.Err()
	case away:
		return kube.Answer{}, errors.New("connection refused")
	}
	return answer, nil
}

func (w *guardedCluster) Leases() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leases
}

func (w *guardedCluster) RestartFullPass() {}

func (w *guardedCluster) Now() time.Time { return time.Now() }

func (w *guardedCluster) RecordRestore(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored = append(w.restored, why)
}
func (w *guardedCluster) Lead()  { w.mu.Lock(); defer w.mu.Unlock(); w.leads = true }
func (w *guardedCluster) Leave() { w.mu.Lock(); defer w.mu.Unlock(); w.left++; w.up = time.Time{} }

func (w *guardedCluster) Raise(_ map[string][]string, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.know = why
	if w.up.IsZero() {
		w.raised++
	}
	if !w.busy && w.up.IsZero() {
		w.up = time.Now().Add(-w.age)
	}
}

func (w *guardedCluster) Lower(context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.up.IsZero() || w.busy {
		w.lowered++
	}
	w.up = time.Time{}
}

func (w *guardedCluster) State() kube.FenceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := kube.FenceState{Since: w.up, IsEndedByPeer: w.dropped}
	if !w.up.IsZero() {
		s.Age = time.Since(w.up)
	}
	return s
}

func (w *guardedCluster) Since() (since time.Time, standing bool) {
	since = w.State().Since
	return since, !since.IsZero()
}

func (w *guardedCluster) PeerFence(context.Context, map[string][]string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.others, nil
}

// is changes the cluster, and waits for a while.
func (w *guardedCluster) is(change func(), d time.Duration) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
}

// stands checks whether the fence stands.
func (w *guardedCluster) stands(t *testing.T, want bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	equal(t, "it stands", !w.up.IsZero(), want)
}

// guarded runs a guard in a bubble until the test has ended.
func guarded(t *testing.T, w *guardedCluster, test func(t *testing.T, g *Guard), edits ...func(*Guard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.revision = 100
		g := NewGuard(GuardConfig{Fence: w, Detector: w, Timeout: MaxFence, Log: slog.New(slog.DiscardHandler),
			Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}},
			FullPass: func() { w.mu.Lock(); defer w.mu.Unlock(); w.passes++ }})
		for _, edit := range edits {
			edit(g)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { g.Run(ctx); close(ended) }()
		w.is(func() {}, time.Second)
		test(t, g)
		stop()
		<-ended
	})
}
