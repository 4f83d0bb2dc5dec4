package serve

import (
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A replica that crashes, or one leader after the other, must not release as much
// each time.
func TestAnotherLeaderGoesOnWithTheBreakersWindow(t *testing.T) {
	c := &cluster{pools: map[string]*ippool.Pool{}}
	var leaks []string
	for i := range 12 {
		leaks = append(leaks, fmt.Sprint("default/gone-", i))
	}
	for leader, patched := range []int{1, 1, 1} { // all of a pool with one patch
		c.pools["10.0.0.0-24"] = aPool("10.0.0.0-24", "10.0.0.0/24", leaks...)
		serving(t, c, reconciler.Options{}, func(t *testing.T, _ *Server) {
			if len(c.patches) != patched {
				t.Errorf("leader %d: %d patches in all, want %d", leader+1, len(c.patches), patched)
			}
		})
	}
}
