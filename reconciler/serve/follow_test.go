package serve

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// large is a cluster of which a cache pass takes a second, with pools that
// are empty so far. The first such pass has just been made: the next is due in four
// seconds.
func large(t *testing.T, opts reconciler.Options, test func(t *testing.T, c *cluster, s *Server)) {
	c := newCluster()
	c.large = time.Second
	for i := range 20 {
		name := fmt.Sprintf("10.1.%d.0-24", i)
		c.pools[name] = aPool(name, fmt.Sprintf("10.1.%d.0/24", i))
	}
	opts.AllowMassRelease = true
	serving(t, c, opts, func(t *testing.T, s *Server) {
		s.Requests.Changed()
		c.sleep(settleFor + c.large + 100*time.Millisecond)
		if len(c.cachePasses) != 1 {
			t.Fatalf("%d cache passes", len(c.cachePasses))
		}
		test(t, c, s)
	})
}

func TestInALargeClusterWhatChangesIsFreedBeforeTheNextCachePass(t *testing.T) {
	large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
		for i := range 4 { // nothing to be freed
			c.pools[fmt.Sprintf("10.1.%d.0-24", i)] = aPool(fmt.Sprintf("10.1.%d.0-24", i), fmt.Sprintf("10.1.%d.0/24", i))
			s.Requests.Changed()
			c.sleep(500 * time.Millisecond)
		}
		c.has("10.1.5.0-24", "10.1.5.0/24")
		s.Requests.Changed()
		c.sleep(500 * time.Millisecond)
		if len(c.patches) != 1 || len(c.cachePasses) != 1 || len(c.followed) != 5 {
			t.Errorf("%d patches, %d cache passes, followed %d times", len(c.patches), len(c.cachePasses), len(c.followed))
		}
		c.has("10.1.6.0-24", "10.1.6.0/24") // the second check read as much as a cache pass does
		s.Requests.Changed()
		c.sleep(time.Second)
		if len(c.patches) != 1 {
			t.Errorf("%d patches", len(c.patches))
		}
		c.sleep(5 * time.Second)
		if len(c.patches) != 2 {
			t.Errorf("%d patches after the next cache pass", len(c.patches))
		}
	})
}

func TestManyChangesAtOnceAreFollowedTogether(t *testing.T) {
	large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
		for i := range 8 {
			c.has(fmt.Sprintf("10.1.%d.0-24", i), fmt.Sprintf("10.1.%d.0/24", i))
			s.Requests.Changed()
		}
		c.sleep(time.Second)
		if len(c.followed) != 1 || len(c.patches) != 8 {
			t.Errorf("followed %d times, %d patches", len(c.followed), len(c.patches))
		}
	})
}

func TestWhatCannotBeFollowedWaitsForTheNextCachePass(t *testing.T) {
	for name, set := range map[string]func(*cluster){
		"only a cache pass tells what has changed": func(c *cluster) { c.changesUnknown = true },
		"the caches cannot be relied upon":         func(c *cluster) { c.unverified = errors.New("a watch is not open") },
	} {
		t.Run(name, func(t *testing.T) {
			large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
				set(c)
				c.has("10.1.0.0-24", "10.1.0.0/24")
				s.Requests.Changed()
				c.sleep(3 * time.Second)
				if len(c.cachePasses) != 1 || len(c.patches) != 0 {
					t.Errorf("%d cache passes, %d patches", len(c.cachePasses), len(c.patches))
				}
				c.unverified = nil
				c.sleep(3 * time.Second)
				if len(c.cachePasses) != 2 || len(c.patches) != 1 {
					t.Errorf("%d cache passes, %d patches", len(c.cachePasses), len(c.patches))
				}
			})
		})
	}
}

func TestWhatIsNotRipeIsNotFreedBecauseItChanged(t *testing.T) {
	large(t, reconciler.Options{ConfirmAfter: time.Minute}, func(t *testing.T, c *cluster, s *Server) {
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.Changed()
		found := time.Now()
		c.sleep(59 * time.Second)
		if len(c.patches) != 0 {
			t.Errorf("freed after %s", c.patches[0].Sub(found))
		}
		c.sleep(20 * time.Second)
		if len(c.patches) != 1 {
			t.Errorf("%d patches", len(c.patches))
		}
	})
}

func TestAPoolWhoseWritesFailIsNotFollowed(t *testing.T) {
	large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
		c.fails["10.1.0.0-24"] = errors.New("an error on the server")
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.Changed()
		c.sleep(2 * time.Minute) // by now it is tried every half minute, some times each
		before := len(c.patches)
		for i := range 30 {
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24", "default/gone", fmt.Sprint("default/gone-", i))
			s.Requests.Changed()
			c.sleep(2 * time.Second)
		}
		if n := len(c.patches) - before; n > 20 { // six for each attempt
			t.Errorf("%d patches in a minute", n)
		}
	})
}
