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
)

// A watched is a cluster as a guard sees it, with its fence. Its parts are changed
// by the test.
type watched struct {
	mu       sync.Mutex
	away     bool
	hangs    bool
	revision uint64
	leases   map[string][]string
	older    string // what a comparison finds
	unsure   error  // why one cannot be made
	asked    int
	restored []string // what the source was told
	intact   time.Time

	raised, lowered, left int
	up                    time.Time // since when the fence stands; zero if it does not
	busy                  bool      // the Leases are not to be had
	age                   time.Duration
	dropped, leads        bool
	know, told, others    string
	passes                int
}

func (w *watched) Ping(ctx context.Context) (uint64, error) {
	w.mu.Lock()
	away, hangs, revision := w.away, w.hangs, w.revision
	w.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return 0, ctx.Err()
	case away:
		return 0, errors.New("connection refused")
	}
	return revision, nil
}

func (w *watched) Leases() map[string][]string { w.mu.Lock(); defer w.mu.Unlock(); return w.leases }

func (w *watched) RestartFullPass() {}

func (w *watched) RanBackwards(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.older, w.unsure
}

func (w *watched) Now() time.Time { return time.Now() }

func (w *watched) RecordRestore(why string, intact time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored, w.intact = append(w.restored, why), intact
}
func (w *watched) Lead()                      { w.mu.Lock(); defer w.mu.Unlock(); w.leads = true }
func (w *watched) Leave()                     { w.mu.Lock(); defer w.mu.Unlock(); w.left++; w.up = time.Time{} }
func (w *watched) AnnounceRestore(why string) { w.mu.Lock(); defer w.mu.Unlock(); w.know = why }
func (w *watched) PeerRestore() string        { w.mu.Lock(); defer w.mu.Unlock(); return w.told }
func (w *watched) EndedByPeer() bool          { w.mu.Lock(); defer w.mu.Unlock(); return w.dropped }
func (w *watched) Missing() []string          { return nil }

func (w *watched) Raise(map[string][]string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.raised++
	stood := make(chan struct{})
	if !w.busy {
		if w.up.IsZero() {
			w.up = time.Now().Add(-w.age)
		}
		close(stood)
	}
	return stood
}

func (w *watched) Lower(context.Context, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.up.IsZero() || w.busy {
		w.lowered++
	}
	w.up = time.Time{}
}

func (w *watched) Covers(map[string][]string) bool { return true }

func (w *watched) Since() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up, !w.up.IsZero()
}

func (w *watched) Age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up.IsZero() {
		return 0
	}
	return time.Since(w.up)
}

func (w *watched) PeerFence(context.Context, map[string][]string) (string, time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.others, w.age, nil
}

// is changes the cluster, and waits for a while.
func (w *watched) is(change func(), d time.Duration) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
}

// stands checks whether the fence stands.
func (w *watched) stands(t *testing.T, want bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	equal(t, "it stands", !w.up.IsZero(), want)
}

// guarded runs a guard in a bubble until the test has ended.
func guarded(t *testing.T, w *watched, test func(t *testing.T, g *Guard), edits ...func(*Guard)) {
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
