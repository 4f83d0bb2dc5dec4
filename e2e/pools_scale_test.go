//go:build slow

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// TestMeasure_PoolsBesideCheck logs how long `pools` and `check` take on the same pools.
func TestMeasure_PoolsBesideCheck(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := &fill.Content{Pods: sized(10000), Pending: sized(2000), Stale: sized(500), Pools: 2, Nodes: 50}
	s.fill(t, c)
	checked := product(t, "check", "-ojson", "--kubeconfig", s.Kubeconfig())
	out := product(t, "pools", "-ojson", "--kubeconfig", s.Kubeconfig())
	pools := readPools(t, out)
	equal(t, "pools", len(pools), c.Pools)
	used := 0
	for _, p := range pools {
		used += p.Used
		if p.Usable.(float64) != p.Free.(float64)+float64(p.Used) || len(p.Waiting) > 0 {
			t.Errorf("%+v", p)
		}
	}
	equal(t, "entries", used, c.Entries())
	detail := product(t, "pools", pools[0].Pool, "-ojson", "--kubeconfig", s.Kubeconfig())
	readPools(t, detail)
	t.Logf("of %d pods and %d entries in %d pools: pools took %.2fs, one pool in detail %.2fs, check %.2fs",
		c.Pods, c.Entries(), c.Pools, out.took.Seconds(), detail.took.Seconds(), checked.took.Seconds())
}
