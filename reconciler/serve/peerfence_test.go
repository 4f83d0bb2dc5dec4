package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// peerFenced are whereabouts' Leases, which the fence of another replica holds: see kube.Cluster.OnPeerFence.
type peerFenced struct {
	*cluster
	join func()
}

func (p peerFenced) Hold(context.Context, string, []string, apply.Work) error {
	p.join()
	return fmt.Errorf("%w: the fence of another replica holds it", apply.ErrLeaseBusy)
}

// The leader before had settled the restore, and ended before it had written what the pools lack. Another replica keeps
// the fence, for 90 s in all. The next leader must work under it: a finding waits for a minute without a fence.
func TestServer_NextLeaderWorksUnderTheFence(t *testing.T) {
	c, w := newCluster(), restoretest.NewCluster()
	c.pools = map[string]*ippool.Pool{"10.0.0.0-24": aPool("10.0.0.0-24", "10.0.0.0/24")}
	serving(t, c, plan.Options{Repair: true}, func(t *testing.T, s *Server) {
		guards(t, w, c, s)
		g := s.Guard
		g.Lead()
		reports := func() { c.reportsUnrecorded() }
		c.mu.Lock()
		s.Full.Leases, s.Quick.Leases = peerFenced{c, g.Join}, peerFenced{c, g.Join}
		c.mu.Unlock()
		reports()
		s.hasPassed = false // it rests
		known, err := s.Full.Process.Known.Read(fmt.Sprintf(`{"id":"kb3q7m2n5p","settled":true,"restored":%q}`,
			time.Now().Add(-40*time.Second).UTC().Format(time.RFC3339)), time.Now())
		check(t, err)
		s.Full.Process.Known.State = known
		s.Requests.FullPass()
		for range 45 {
			c.sleep(time.Second)
			reports()
		}
		t.Logf("full passes %d, cache passes %d, repairs wait: %v", len(c.passes), len(c.cachePasses), w.Raises)
		restoretest.Equal(t, "fenced 85 s after the restore", g.IsFenced(), true)
		for range 20 {
			c.sleep(time.Second)
			reports()
		}
		t.Logf("20 s later fenced: %v", g.IsFenced())
	})
}

// reportsUnrecorded has worker-1 report a sandbox whose address no pool records, so that there is something to repair.
func (c *cluster) reportsUnrecorded() {
	r := restoretest.Report("worker-1", time.Now())
	r.ObservedAt = metav1.NewTime(time.Now())
	r.Sandboxes = []v1alpha1.Sandbox{{ID: "box-5", Namespace: "default", Name: "web", UID: "uid-5",
		State: v1alpha1.SandboxReady, CreatedAt: metav1.NewTime(time.Now().Add(-time.Hour)),
		Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Range: "10.0.0.0/24"}}}}
	c.mu.Lock()
	c.reports = []*podstate.Report{r}
	c.mu.Unlock()
}

// A settled restore is new to a new leader that has repairs to make only while it is recent.
func TestServer_NewLeaderWithRepairs(t *testing.T) {
	for _, tt := range []struct {
		age  time.Duration
		want float64
	}{{9 * time.Minute, 1}, {11 * time.Minute, 0}, {90 * 24 * time.Hour, 0}} {
		c, w := newCluster(), restoretest.NewCluster()
		c.pools = map[string]*ippool.Pool{"10.0.0.0-24": aPool("10.0.0.0-24", "10.0.0.0/24")}
		serving(t, c, plan.Options{Repair: true}, func(t *testing.T, s *Server) {
			guards(t, w, c, s)
			c.reportsUnrecorded()
			s.hasPassed = false // it rests
			known, err := s.Full.Process.Known.Read(fmt.Sprintf(`{"id":"kb3q7m2n5p","settled":true,"restored":%q}`,
				time.Now().Add(-tt.age).UTC().Format(time.RFC3339)), time.Now())
			check(t, err)
			s.Full.Process.Known.State = known
			s.Requests.FullPass()
			c.sleep(5 * time.Second)
			restoretest.Equal(t, fmt.Sprintf("restores of %s ago", tt.age), valueOf(t, s.Recorder.Metrics.restores), tt.want)
		})
	}
}
