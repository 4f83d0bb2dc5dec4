package serve

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

func newCluster() *cluster {
	return &cluster{pools: map[string]*ippool.Pool{}, fails: map[string]error{}}
}

func TestServer_BurstOfChanges(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		for range 1000 {
			s.Requests.CachePass()
		}
		c.sleep(judgeEvery - time.Second)
		restoretest.Equal(t, "cache passes", len(c.cachePasses), 1)
		restoretest.Equal(t, "patches", len(c.patches), 1)
	})
}

func TestServer_QuietDay(t *testing.T) {
	c := newCluster()
	for _, name := range []string{"worker-1", "worker-2"} {
		c.reports = append(c.reports, restoretest.Report(name, time.Time{}))
	}
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
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
		if n, most := len(c.cachePasses), int(24*time.Hour/judgeEvery); n > most || n < most*9/10 || len(c.passes) != 1 {
			t.Errorf("%d cache passes, %d full passes", len(c.cachePasses), len(c.passes))
		}
	})
}

func TestServer_Confirmation(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{ConfirmAfter: 2 * time.Minute}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		start := time.Now()
		c.sleep(10 * time.Minute)
		if len(c.patches) != 1 {
			t.Fatalf("%d patches", len(c.patches))
		}
		if after := c.patches[0].Sub(start); after < 2*time.Minute || after > 2*time.Minute+3*time.Second {
			t.Errorf("released after %s", after)
		}
		if n := len(c.cachePasses); n > 4+int(10*time.Minute/judgeEvery) {
			t.Errorf("%d cache passes", n)
		}
	})
}

func TestServer_FailedWritesWait(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.fails["10.1.0.0-24"] = errors.New("an error on the server")
		c.has("10.1.0.0-24", "10.1.0.0/24")
		start := time.Now()
		s.Requests.CachePass()
		for i := range 40 { // leaks in other pools
			name := fmt.Sprintf("10.2.%d.0-24", i)
			c.has(name, fmt.Sprintf("10.2.%d.0/24", i))
			s.Requests.CachePass()
			c.sleep(15 * time.Second)
			restoretest.Equal(t, "left in "+name, len(c.pools[name].Allocations), 0)
		}
		var tries []time.Time
		for i, name := range c.patched {
			if name == "10.1.0.0-24" {
				tries = append(tries, c.patches[i])
			}
		}
		between := pauses(since(tries, start))
		if len(between) < 10 || len(between) > 120 {
			t.Errorf("pauses between tries: %v", between)
		}
		if longest := slices.Max(between); longest < 30*time.Second || longest > 45*time.Second {
			t.Errorf("the longest pause is %s", longest)
		}
		delete(c.fails, "10.1.0.0-24")
		c.sleep(time.Minute)
		if n := len(c.pools["10.1.0.0-24"].Allocations); n != 0 {
			t.Error("not released when writes succeed again")
		}
		synctest.Wait()
		if n := s.backoff.NumRequeues(write); n != 0 || s.unwritten.Len() != 0 {
			t.Errorf("remembers %d failures, of %v", n, s.unwritten)
		}
	})
}

func TestServer_RequestDuringAFullPass(t *testing.T) {
	c := newCluster()
	c.slow = 30 * time.Second
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		start := time.Now()
		s.Requests.FullPass()
		c.sleep(5 * time.Second)
		s.Requests.FullPass()
		c.sleep(2 * time.Minute)
		passes := since(c.passes, start)
		if len(passes) != 2 {
			t.Fatalf("%d full passes", len(passes))
		}
		if d := passes[1].Sub(passes[0]); d < c.slow {
			t.Errorf("the second started %s after the first", d)
		}
	})
}

func TestServer_PassesLongerThanTheirPeriod(t *testing.T) {
	c := newCluster()
	c.slow = 7 * time.Second
	servingAt(t, "@every 2s", c, plan.Options{}, func(t *testing.T, s *Server) {
		c.sleep(5 * time.Minute)
		if n := len(c.passes); n < 20 || n > 45 {
			t.Errorf("%d full passes", n)
		}
		for i := 1; i < len(c.passes); i++ {
			if d := c.passes[i].Sub(c.passes[i-1]); d < c.slow {
				t.Errorf("pass %d started %s after the previous one", i, d)
			}
		}
	})
}

func TestServer_UnverifiedCaches(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.unverified = fmt.Errorf("%w: a watch is closed", informers.ErrCacheUnverified)
		start := time.Now()
		for time.Since(start) < 10*time.Minute { // continuous changes
			s.Requests.CachePass()
			c.sleep(300 * time.Millisecond)
		}
		between := pauses(since(c.passes, start))
		if len(between) < 15 || len(between) > 30 || slices.Max(between) > 35*time.Second {
			t.Errorf("full passes after %v", between)
		}
		if !slices.IsSorted(between[:5]) || between[0] > 3*time.Second {
			t.Errorf("first pauses: %v", between[:5])
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.sleep(time.Minute)
		restoretest.Equal(t, "patches", len(c.patches), 1)

		c.unverified = nil
		s.Requests.CachePass()
		c.sleep(time.Second)
		c.unverified = informers.ErrCacheUnverified
		again := time.Now()
		s.Requests.CachePass()
		c.sleep(10 * time.Second)
		if passes := since(c.passes, again); len(passes) == 0 || passes[0].Sub(again) > 3*time.Second {
			t.Errorf("full passes after the next failure: %v", passes)
		}
	})
}

// A kind that cannot be watched is polled, however many changes the other watches deliver.
func TestServer_PolledKind(t *testing.T) {
	for slow, every := range map[time.Duration]time.Duration{0: pollEvery, 20 * time.Second: 100 * time.Second,
		2 * time.Minute: 2*time.Minute + maxPollRest} {
		c := newCluster()
		serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
			c.unverified = fmt.Errorf("%w: %w nodes", informers.ErrCacheUnverified, informers.ErrPolled)
			c.slow = slow
			s.Requests.CachePass()
			c.sleep(5 * time.Minute)
			start := time.Now()
			for time.Since(start) < 20*time.Minute { // continuous changes
				s.Requests.CachePass()
				c.sleep(300 * time.Millisecond)
			}
			between := pauses(since(c.passes, start))
			if len(between) < 3 || slices.Min(between) < every-time.Second || slices.Max(between) > every+2*time.Second {
				t.Errorf("of %s each: full passes after %v", slow, between)
			}
			c.has("10.1.0.0-24", "10.1.0.0/24")
			c.sleep(every + 2*time.Minute)
			restoretest.Equal(t, "patches", len(c.patches), 1)
		})
		c = newCluster()
		serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
			c.unverified = fmt.Errorf("%w: %w nodes", informers.ErrCacheUnverified, informers.ErrPolled)
			c.sleep(20 * time.Minute) // without a change
			if n := len(c.passes); n < 18 {
				t.Errorf("%d full passes in a quiet time", n)
			}
		})
	}
}

func TestServer_ConfirmationWithoutCaches(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{ConfirmAfter: time.Minute}, func(t *testing.T, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(time.Second)
		c.noCaches, c.unverified = true, informers.ErrCacheUnverified
		c.sleep(3 * time.Minute)
		restoretest.Equal(t, "patches", len(c.patches), 1)
	})
}

// A full pass of a large cluster is expensive, and many deadlines may follow one another.
func TestServer_FullPassesRestWithoutCaches(t *testing.T) {
	c := newCluster()
	c.noCaches = true
	serving(t, c, plan.Options{ConfirmAfter: 5 * time.Second}, func(t *testing.T, s *Server) {
		for i := range 10 { // each is confirmed after five seconds
			c.has(fmt.Sprintf("10.1.%d.0-24", i), fmt.Sprintf("10.1.%d.0/24", i))
			c.sleep(time.Minute)
		}
		between := pauses(c.passes)
		if len(c.patches) == 0 || slices.Min(between) < maxRetry {
			t.Errorf("%d patches, full passes after %v", len(c.patches), between)
		}
	})
}

func TestServer_UnreachableCluster(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		c.down, c.unverified = errors.New("unreachable"), informers.ErrCacheUnverified
		start := time.Now()
		s.Requests.CachePass()
		c.sleep(10 * time.Minute)
		between := pauses(since(c.passes, start))
		if len(between) < 15 || len(between) > 30 || !slices.IsSorted(between) {
			t.Errorf("full passes after %v", between)
		}
		if s.Health.Alive(nil) != nil || s.Health.Ready(nil) == nil {
			t.Errorf("alive: %v, ready: %v", s.Health.Alive(nil), s.Health.Ready(nil))
		}
		c.down, c.unverified = nil, nil
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.sleep(40 * time.Second)
		restoretest.Equal(t, "patches", len(c.patches), 1)
		if err := s.Health.Ready(nil); err != nil {
			t.Error(err)
		}
	})
}

// OnPass receives each pass once, and why one has failed. AfterFullPass follows full passes alone.
func TestServer_OnPassReceivesEachPass(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		results, failures, full := 0, 0, 0
		s.AfterFullPass = func() { full++ }
		s.OnPass = func(out *reconciler.Result, err error) {
			if err != nil {
				failures++
			} else if out.Judgement != nil {
				results++
			}
		}
		c.sleep(0)
		before := len(c.cachePasses)
		s.Requests.CachePass()
		c.sleep(10 * time.Second)
		s.Requests.FullPass()
		c.sleep(10 * time.Second)
		if n := 1 + len(c.cachePasses) - before; results != n || n < 2 {
			t.Errorf("%d results of %d passes", results, n)
		}
		if full == 0 || full >= results {
			t.Errorf("%d of %d passes were full ones", full, results)
		}
		c.mu.Lock()
		c.down = errors.New("unreachable")
		c.mu.Unlock()
		s.Requests.FullPass()
		c.sleep(time.Second)
		if failures == 0 {
			t.Error("a failed pass is not reported")
		}
	})
}

// A cache pass may be the first that knows of a restore. A full pass follows at once, which says what is since, and
// only full passes settle the restore.
func TestServer_RestoreInACachePass(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{}, func(t *testing.T, s *Server) {
		noted := restoretest.Report("worker-1", time.Time{})
		noted.RestoreNonce = "k3f7q2m9xa"
		c.mu.Lock()
		c.reports = append(c.reports, noted)
		c.mu.Unlock()
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(2 * time.Second)
		restoretest.Equal(t, "full passes after two seconds", len(c.passes), 2)
		c.sleep(observeEvery + time.Minute)
		if len(c.patches) != 0 || len(c.passes) != 3 {
			t.Errorf("%d patches, %d full passes", len(c.patches), len(c.passes))
		}
	})
}
