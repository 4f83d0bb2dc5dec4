package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// guards adds a running guard to a server.
func guards(t *testing.T, w *restoretest.Cluster, c *cluster, s *Server) {
	g := w.Guard(s.Requests.FullPass, s.Recorder.FenceEvent)
	c.mu.Lock()
	s.Guard, s.Full.Fence = g, w
	c.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.Run(ctx); close(ended) }()
	c.sleep(time.Second)
	t.Cleanup(func() { stop(); <-ended })
}

func TestServer_FullPassesUnderTheFence(t *testing.T) {
	c, w := newCluster(), restoretest.NewCluster()
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		guards(t, w, c, s)
		c.down = errors.New("ippools are not served yet")
		w.RestoreEtcd()
		start := time.Now()
		c.sleep(20 * time.Second)
		if n := len(since(c.passes, start)); n < 20 {
			t.Errorf("%d full passes in 20 s", n)
		}
		w.IsFenced(t, true)
		c.down = nil
		c.sleep(3 * time.Second)
		w.IsFenced(t, false)
		start = time.Now()
		c.sleep(20 * time.Second)
		restoretest.Equal(t, "full passes after the fence", len(since(c.passes, start)), 0)
	})
}

// The ping has not shown the restore. ADDs must not go on until a pass succeeds.
func TestServer_FailedPassRaisesTheFence(t *testing.T) {
	c, w := newCluster(), restoretest.NewCluster()
	c.revision = 100
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		guards(t, w, c, s)
		c.mu.Lock()
		c.revision, c.down = 50, errors.New("pods are forbidden")
		c.mu.Unlock()
		s.Requests.FullPass()
		c.sleep(time.Second)
		w.IsFenced(t, true)
		restoretest.Equal(t, "rebuilds", len(c.rebuilds), 1)
		c.mu.Lock()
		c.down = nil
		c.mu.Unlock()
		c.sleep(time.Minute)
		restoretest.Equal(t, "rebuilds after a pass", len(c.rebuilds), 1)
		restoretest.Equal(t, "fences", w.Raises, 1)
	})
}

// The first pass of a new leader raises the fence for a restore for which its process has raised it before, or for
// which nodes have yet to report, although no release waits for that.
func TestServer_NewLeaderReportsTheRestore(t *testing.T) {
	for name, tt := range map[string]struct {
		isDetected bool
		stored     string // by an earlier process
		restores   float64
	}{
		"that it has detected":                        {true, "", 1},
		"that an earlier process has detected":        {false, `{"id":"kb3q7m2n5p","awaited":{"worker-1":false}}`, 1},
		"since which all nodes have reported already": {false, `{"id":"kb3q7m2n5p","settled":true}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := newCluster(), restoretest.NewCluster()
			serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
				guards(t, w, c, s)
				s.hasPassed = false // it rests
				r := restoretest.Report("worker-1", time.Time{})
				if tt.isDetected {
					r.RestoreNonce = "k3f7q2m9xa"
				}
				c.mu.Lock()
				c.reports = []*podstate.Report{r}
				c.mu.Unlock()
				known, err := s.Full.Process.Known.Read(tt.stored, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				s.Full.Process.Known.State = known
				if tt.isDetected {
					w.RestoreEtcd()
				} else {
					s.Requests.FullPass()
				}
				c.sleep(5 * time.Second)
				restoretest.Equal(t, "restores", valueOf(t, s.Recorder.Metrics.restores), tt.restores)
				restoretest.Equal(t, "fences", w.Raises, tt.restores)
			})
		})
	}
}

// An agent notes a restore. Another one that has not reported since notes it later: that is no other restore, for which
// ADDs would have to wait again.
func TestServer_AgentReportsRestore(t *testing.T) {
	for name, tt := range map[string]struct {
		isAwaited bool
		restores  float64
	}{"one that is awaited, too": {true, 1}, "one that is not": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			c, w := newCluster(), restoretest.NewCluster()
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24")
			serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
				guards(t, w, c, s)
				c.sleep(2 * time.Hour)
				notes := func(name, nonce string, version int) *podstate.Report {
					r := restoretest.Report(name, time.Now())
					r.RestoreNonce, r.LeaseVersion = nonce, fmt.Sprint(version)
					return r
				}
				pass := func(reports ...*podstate.Report) {
					c.mu.Lock()
					c.reports = reports
					c.mu.Unlock()
					s.Requests.FullPass()
					c.sleep(2 * time.Second)
				}
				first, before := notes("worker-1", "k3f7q2m9xa", 7), notes("worker-2", "", 6)
				pass(first, before)
				pass(first, before)
				restoretest.Equal(t, "fences", w.Raises, 1)
				first, before = notes("worker-1", "k3f7q2m9xa", 8), notes("worker-2", "", 9)
				if tt.isAwaited {
					before = notes("worker-2", "", 6)
				}
				pass(first, before)
				pass(first, notes("worker-2", "a7b2c9d4ef", 10))
				restoretest.Equal(t, "restores", valueOf(t, s.Recorder.Metrics.restores), tt.restores)
				pass()
			})
		})
	}
}
