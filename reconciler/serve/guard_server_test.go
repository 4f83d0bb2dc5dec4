package serve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// guards gives a server that runs a guard.
func (w *guardedCluster) guards(t *testing.T, c *cluster, s *Server) {
	w.revision = 100
	g := NewGuard(GuardConfig{Fence: w, Detector: w, Timeout: MaxFence, Log: slog.New(slog.DiscardHandler), FullPass: s.Requests.FullPass,
		Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}}})
	c.mu.Lock()
	s.Guard, s.Full.Fence = g, w
	c.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.Run(ctx); close(ended) }()
	c.sleep(time.Second)
	t.Cleanup(func() { stop(); <-ended })
}

func TestWhileTheFenceStandsForARestoreFullPassesFollowEachOther(t *testing.T) {
	c, w := newCluster(), aCluster()
	serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
		w.guards(t, c, s)
		c.down = errors.New("not all is served yet")
		w.restore()
		began := time.Now()
		c.sleep(20 * time.Second)
		if n := len(since(c.passes, began)); n < 20 {
			t.Errorf("%d full passes in 20 s", n)
		}
		w.stands(t, true)
		c.down = nil
		c.sleep(3 * time.Second)
		w.stands(t, false)
		began = time.Now()
		c.sleep(20 * time.Second)
		equal(t, "full passes after the fence", len(since(c.passes, began)), 0)
	})
}

// What an agent tells of long after a restore is no reason to keep ADDs waiting.
func TestARestoreThatAnAgentTellsOfRaisesTheFenceWhileThatIsNew(t *testing.T) {
	for name, tt := range map[string]struct {
		ago    time.Duration
		raised int
	}{"just now": {20 * time.Second, 1}, "long ago": {time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			c, w := newCluster(), aCluster()
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24")
			serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
				w.guards(t, c, s)
				c.sleep(2 * time.Hour)
				c.reports = []*podstate.Report{{SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}, RestoreDetectedAt: time.Now().Add(-tt.ago)}}
				s.Requests.CachePass()
				c.sleep(10 * time.Second)
				equal(t, "raised", w.raised, tt.raised)
				c.reports = nil
			})
		})
	}
}
