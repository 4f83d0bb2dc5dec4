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

// A guardedCluster is the RestoreDetector and the Fence of a Guard. The test changes its fields.
type guardedCluster struct {
	mu       sync.Mutex
	away     bool // the API server refuses connections
	hangs    bool // the API server does not answer
	revision uint64
	answer   kube.Answer // but for the revision
	leases   map[string][]string
	restored []string // calls of RecordRestore

	raises, lowers, leaves int       // numbers of calls
	since                  time.Time // since when the fence is complete; zero without a fence
	isBusy                 bool      // others hold the Leases
	age                    time.Duration
	endedByPeer            bool
	why, peer              string // of our last fence, of another replica's
	passes                 int    // requested full passes
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
func (w *guardedCluster) Now() time.Time   { return time.Now() }
func (w *guardedCluster) Lead()            {}

func (w *guardedCluster) RecordRestore(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored = append(w.restored, why)
}

func (w *guardedCluster) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaves++
	w.since = time.Time{}
}

func (w *guardedCluster) Raise(_ map[string][]string, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why = why
	if w.since.IsZero() {
		w.raises++
	}
	if !w.isBusy && w.since.IsZero() {
		w.since = time.Now().Add(-w.age)
	}
}

func (w *guardedCluster) Lower(context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() || w.isBusy {
		w.lowers++
	}
	w.since = time.Time{}
}

func (w *guardedCluster) State() kube.FenceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := kube.FenceState{Since: w.since, IsEndedByPeer: w.endedByPeer}
	if !w.since.IsZero() {
		s.Age = time.Since(w.since)
	}
	return s
}

func (w *guardedCluster) Since() time.Time { return w.State().Since }

func (w *guardedCluster) PeerFence(context.Context, map[string][]string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peer, nil
}

// change changes the cluster, and waits.
func (w *guardedCluster) change(change func(), wait time.Duration) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.wait(wait)
}

func (w *guardedCluster) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// isFenced checks whether the fence is complete.
func (w *guardedCluster) isFenced(t *testing.T, want bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	equal(t, "fenced", !w.since.IsZero(), want)
}

// newGuard returns a Guard of the cluster.
func (w *guardedCluster) newGuard(fullPass func()) *Guard {
	w.revision = 100
	return NewGuard(GuardConfig{Fence: w, Detector: w, Timeout: kube.LongestFence, Log: slog.New(slog.DiscardHandler),
		FullPass: fullPass, Metrics: NewMetrics(prometheus.NewRegistry()),
		Events: &Events{EventRecorder: &record.FakeRecorder{}}})
}

// guarded runs a guard in a bubble until the test has ended.
func guarded(t *testing.T, w *guardedCluster, test func(t *testing.T, g *Guard), edits ...func(*Guard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := w.newGuard(func() { w.mu.Lock(); defer w.mu.Unlock(); w.passes++ })
		for _, edit := range edits {
			edit(g)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { g.Run(ctx); close(ended) }()
		w.wait(time.Second)
		test(t, g)
		stop()
		<-ended
	})
}
