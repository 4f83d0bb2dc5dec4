//go:build slow

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// TestPoolsOfThousandsAreReadAsFastAsTheyAreChecked is not parallel: its times mean nothing beside
// other clusters on the machine.
func TestPoolsOfThousandsAreReadAsFastAsTheyAreChecked(t *testing.T) {
	s := newStage(t)
	c := &fill.Content{Pods: 10000, Pending: 2000, Stale: 500, Pools: 2, Nodes: 50}
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
