package serve

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// That etcd was restored is noticed by the second check. From then on nothing is
// released on what the watches told, until the caches are thrown away.
func TestARestoreThatIsNoticedWhileFollowingThrowsTheCachesAway(t *testing.T) {
	for name, rests := range map[string]time.Duration{"by a cache pass, without a pause": 0, "by following a change": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.revision = 100
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24")
			c.pools["10.1.1.0-24"] = aPool("10.1.1.0-24", "10.1.1.0/24")
			serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
				c.large = rests
				s.Requests.Changed()
				c.sleep(settleFor + c.large + 100*time.Millisecond)
				c.revision = 50
				c.has("10.1.0.0-24", "10.1.0.0/24")
				s.Requests.Changed()
				c.sleep(time.Second)
				if s.Full.History.Restored().IsZero() {
					t.Fatal("the restore was not noticed")
				}
				if len(c.rebuilds) == 0 {
					t.Errorf("the restore was noticed, and the caches are not thrown away")
				}
				c.has("10.1.1.0-24", "10.1.1.0/24")
				s.Requests.Changed()
				c.sleep(time.Second)
				if len(c.patched) > 0 && len(c.rebuilds) == 0 {
					t.Errorf("released in %v on what the watches told after the restore was noticed", c.patched)
				}
			})
		})
	}
}
