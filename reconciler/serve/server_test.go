package serve

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
)

func newCluster() *cluster {
	return &cluster{pools: map[string]*ippool.Pool{}, fails: map[string]error{}}
}

func TestABurstOfChangesIsOneCachePass(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		for range 1000 {
			s.Requests.CachePass()
		}
		c.sleep(judgeEvery - time.Second)
		if n := len(c.cachePasses); n != 1 {
			t.Errorf("%d cache passes", n)
		}
		if n := len(c.patches); n != 1 {
			t.Errorf("%d patches", n)
		}
	})
}

func TestADayOnWhichNothingHappens(t *testing.T) {
	c := newCluster()
	for _, name := range []string{"worker-1", "worker-2"} {
		c.reports = append(c.reports, &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
		for range 24 * 60 * 3 { // agents renew their Leases
			time.Sleep(20 * time.Second)
			c.mu.Lock()
			c.reports = slices.Clone(c.reports)
			for i, r := range c.reports {
				renewed := *r // the server has the one from before
				renewed.ConfirmedAt, renewed.LeaseRenewedAt = time.Now(), time.Now()
				c.reports[i] = &renewed
			}
			c.mu.Unlock()
		}
		if len(c.cachePasses) > int(24*time.Hour/judgeEvery) || len(c.passes) != 1 {
			t.Errorf("%d cache passes, %d full passes", len(c.cachePasses), len(c.passes))
		}
	})
}

func TestWhatIsNotConfirmedIsJudgedAgainWhenItIsDue(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{ConfirmAfter: 2 * time.Minute}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		found := time.Now()
		c.sleep(10 * time.Minute)
		if len(c.patches) != 1 {
			t.Fatalf("%d patches", len(c.patches))
		}
		if after := c.patches[0].Sub(found); after < 2*time.Minute || after > 2*time.Minute+3*time.Second {
			t.Errorf("freed after %s", after)
		}
		if n := len(c.cachePasses); n > 4+int(10*time.Minute/judgeEvery) {
			t.Errorf("%d cache passes", n)
		}
	})
}

func TestAPoolWhoseWritesFailIsLeftAloneWhileOthersAreFreed(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.fails["10.1.0.0-24"] = errors.New("an error on the server")
		c.has("10.1.0.0-24", "10.1.0.0/24")
		began := time.Now()
		s.Requests.CachePass()
		for i := range 40 { // another pool has a leak every now and then
			name := fmt.Sprintf("10.2.%d.0-24", i)
			c.has(name, fmt.Sprintf("10.2.%d.0/24", i))
			s.Requests.CachePass()
			c.sleep(15 * time.Second)
			if n := len(c.pools[name].Allocations); n != 0 {
				t.Errorf("%s is not freed", name)
			}
		}
		var tried []time.Time
		for i, name := range c.patched {
			if name == "10.1.0.0-24" {
				tried = append(tried, c.patches[i])
			}
		}
		between := pauses(since(tried, began))
		if len(between) < 10 || len(between) > 120 {
			t.Errorf("tried again after %v", between)
		}
		if longest := slices.Max(between); longest < 30*time.Second || longest > 45*time.Second {
			t.Errorf("the longest pause is %s", longest)
		}
		delete(c.fails, "10.1.0.0-24")
		c.sleep(time.Minute)
		if n := len(c.pools["10.1.0.0-24"].Allocations); n != 0 {
			t.Error("it is not freed when its writes succeed again")
		}
		synctest.Wait()
		if n := s.backoff.NumRequeues(write); n != 0 || s.unwritten.Len() != 0 {
			t.Errorf("%d failures are remembered, of %v", n, s.unwritten)
		}
	})
}

func TestAFullPassThatIsAskedForWhileOneRunsIsMadeAfterIt(t *testing.T) {
	c := newCluster()
	c.slow = 30 * time.Second
	serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
		began := time.Now()
		s.Requests.FullPass()
		c.sleep(5 * time.Second) // it runs
		s.Requests.FullPass()
		c.sleep(2 * time.Minute)
		passes := since(c.passes, began)
		if len(passes) != 2 {
			t.Fatalf("%d full passes", len(passes))
		}
		if d := passes[1].Sub(passes[0]); d < c.slow {
			t.Errorf("the second began %s after the first", d)
		}
	})
}

func TestPassesThatTakeLongerThanTheirPeriodDoNotOverlap(t *testing.T) {
	c := newCluster()
	c.slow = 7 * time.Second
	servingAt(t, "@every 2s", c, reconciler.Options{}, func(t *testing.T, s *Server) {
		c.sleep(5 * time.Minute)
		if n := len(c.passes); n < 20 || n > 45 {
			t.Errorf("%d full passes", n)
		}
		for i := 1; i < len(c.passes); i++ {
			if d := c.passes[i].Sub(c.passes[i-1]); d < c.slow {
				t.Errorf("one began %s after the one before", d)
			}
		}
	})
}

func TestCachesThatCannotBeReliedUponAskForFullPassesWithGrowingPauses(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.unverified = fmt.Errorf("%w: a watch is closed", informers.ErrCacheUnverified)
		began := time.Now()
		for time.Since(began) < 10*time.Minute { // changes go on and on
			s.Requests.CachePass()
			c.sleep(300 * time.Millisecond)
		}
		between := pauses(since(c.passes, began))
		if len(between) < 15 || len(between) > 30 || slices.Max(between) > 35*time.Second {
			t.Errorf("full passes after %v", between)
		}
		if !slices.IsSorted(between[:5]) || between[0] > 3*time.Second {
			t.Errorf("the first pauses: %v", between[:5])
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.sleep(time.Minute)
		if n := len(c.patches); n != 1 {
			t.Errorf("%d patches: full passes free nothing", n)
		}

		c.unverified = nil
		s.Requests.CachePass()
		c.sleep(time.Second)
		c.unverified = informers.ErrCacheUnverified
		again := time.Now()
		s.Requests.CachePass()
		c.sleep(10 * time.Second)
		if passes := since(c.passes, again); len(passes) == 0 || passes[0].Sub(again) > 3*time.Second {
			t.Errorf("the next fault begins with full passes at %v", passes)
		}
	})
}

func TestWhatIsDueWhileThereAreNoCachesIsNotLeftToTheSchedule(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{ConfirmAfter: time.Minute}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(time.Second)
		c.noCaches, c.unverified = true, fmt.Errorf("%w: there are none", informers.ErrCacheUnverified)
		c.sleep(3 * time.Minute)
		if n := len(c.patches); n != 1 {
			t.Errorf("%d patches", n)
		}
	})
}

func TestAClusterThatCannotBeObservedIsTriedWithGrowingPauses(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.down, c.unverified = errors.New("cannot be reached"), informers.ErrCacheUnverified
		began := time.Now()
		s.Requests.CachePass()
		c.sleep(10 * time.Minute)
		between := pauses(since(c.passes, began))
		if len(between) < 15 || len(between) > 30 || !slices.IsSorted(between) {
			t.Errorf("full passes after %v", between)
		}
		if s.Health.Alive(nil) != nil || s.Health.Ready(nil) == nil {
			t.Errorf("alive: %v, ready: %v", s.Health.Alive(nil), s.Health.Ready(nil))
		}
		c.down, c.unverified = nil, nil
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.sleep(40 * time.Second)
		if n := len(c.patches); n != 1 {
			t.Errorf("%d patches", n)
		}
		if err := s.Health.Ready(nil); err != nil {
			t.Error(err)
		}
	})
}
