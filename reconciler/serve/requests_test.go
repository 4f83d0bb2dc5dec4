package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

func TestRequests_ChangeDuringAPass(t *testing.T) {
	for name, during := range map[string]func(c *cluster, s *Server){
		"cache pass":              func(c *cluster, s *Server) { c.large = 2 * time.Second; s.Requests.CachePass() },
		"full pass":               func(c *cluster, s *Server) { c.slow = 2 * time.Second; s.Requests.FullPass() },
		"rest after a cache pass": func(c *cluster, s *Server) { c.large = 400 * time.Millisecond; s.Requests.CachePass() },
		"failed pass": func(c *cluster, s *Server) {
			c.unverified = errors.New("failed")
			s.Requests.CachePass()
		},
		"burst": func(c *cluster, s *Server) { s.Requests.CachePass() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
				during(c, s)
				for wait := settleFor / 2; wait < 4*time.Second; wait *= 2 {
					c.sleep(wait)
					c.unverified = nil
					c.has("10.1.0.0-24", "10.1.0.0/24")
					patches := len(c.patches)
					s.Requests.CachePass()
					c.sleep(30 * time.Second)
					if len(c.patches) != patches+1 {
						t.Fatalf("%d patches for a change after %s", len(c.patches)-patches, wait)
					}
					during(c, s)
				}
			})
		})
	}
}

// large runs a test on a cluster whose cache passes take a second. The first has ended, so the next may start in four
// seconds.
func large(t *testing.T, opts plan.Options, test func(t *testing.T, c *cluster, s *Server)) {
	c := newCluster()
	c.large = time.Second
	for i := range 20 {
		name := fmt.Sprintf("10.1.%d.0-24", i)
		c.pools[name] = aPool(name, fmt.Sprintf("10.1.%d.0/24", i))
	}
	opts.AllowMassRelease = true
	serving(t, c, opts, func(t *testing.T, s *Server) {
		s.Requests.CachePass()
		c.sleep(settleFor + c.large + 100*time.Millisecond)
		if len(c.cachePasses) != 1 {
			t.Fatalf("%d cache passes", len(c.cachePasses))
		}
		test(t, c, s)
	})
}

func TestRest_ContinuousChanges(t *testing.T) {
	large(t, plan.Options{}, func(t *testing.T, c *cluster, s *Server) {
		for range 1000 {
			s.Requests.CachePass()
			c.sleep(100 * time.Millisecond)
		}
		if n := len(c.cachePasses); n < 19 || n > 21 {
			t.Errorf("%d cache passes of a second in 100 s", n)
		}
	})
}

func TestRest_FullPassDoesNotWait(t *testing.T) {
	large(t, plan.Options{}, func(t *testing.T, c *cluster, s *Server) {
		s.Requests.FullPass()
		c.sleep(2 * settleFor)
		restoretest.Equal(t, "full passes", len(c.passes), 2)
	})
}

// busy is a cluster in which others hold whereabouts' Lease.
type busy struct {
	*cluster
	holds *[]time.Time
}

func (b busy) Hold(context.Context, string, []string, apply.Work) error {
	*b.holds = append(*b.holds, time.Now())
	time.Sleep(200 * time.Millisecond)
	return apply.ErrLeaseBusy
}

func TestBackOff_PoolThatChangesAllTheTime(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		var holds []time.Time
		s.Quick.Leases = busy{c, &holds}
		var refs []string
		for i := range 14 { // a pool that leaks continuously
			refs = append(refs, fmt.Sprint("default/gone-", i))
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24", refs...)
			s.Requests.CachePass()
			c.sleep(500 * time.Millisecond)
		}
		refused := valueOf(t, s.Recorder.Metrics.refused.WithLabelValues(string(plan.LeaseBusy)))
		if len(holds) > 5 || refused == 0 {
			t.Errorf("tried the Lease %d times in 7 s for one pool, %v refusals", len(holds), refused)
		}
	})
}

// After a restore of etcd cache passes release nothing until the caches are rebuilt.
func TestRestore_DetectedByTheSecondCheck(t *testing.T) {
	c := newCluster()
	c.revision = 100
	c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24")
	serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.revision = 50
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(time.Second)
		restored, _ := s.Full.Process.Known.Last()
		if restored.IsZero() || len(c.rebuilds) != 1 || len(c.cachePasses) != 1 || len(c.patches) != 0 {
			t.Errorf("restored at %s, rebuilds %q, %d cache passes, patches %v",
				restored, c.rebuilds, len(c.cachePasses), c.patches)
		}
	})
}
