//go:build slow

package e2e

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestAStormOfPodsLosesNoAddressAndLeaksNone lets the real plugin and the real command work side by side, without node
// agents, and reads in the history of the pools whether an address was ever free while it was in use.
func TestAStormOfPodsLosesNoAddressAndLeaksNone(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	// red has the addresses of blue: only their network names tell them apart.
	red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
	// sliced gives each node a pool and a Lease of its own.
	s.slices(t, "sliced", "worker-1", "10.4.1.0/24", "worker-2", "10.4.2.0/24")
	sliced := theNames(network("sliced", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"}))
	sliced.pool = func(node string) string { return node + "-10.4." + node[len("worker-"):] + ".0-24" }
	r := newFaultTrial(t, s, false, theNames(blue), theNames(red), sliced)
	began := time.Now()
	runs := r.runs(t, s.Kubeconfig(), "--trust-network-status")
	rest := r.traffic(t, 1, 24)
	eventuallyWithin(t, 15*time.Minute, "the storm to be large enough to show anything", func() bool {
		return r.adds.Load() >= 250 && r.released.Load() >= 30
	})
	rest()
	left := r.settle(t)
	runs()
	t.Logf("%s; %d leaked entries were taken over by a successor first; %.1fs", r.verdict(t, left), r.pools.takenOver(), time.Since(began).Seconds())
	if len(r.live) == 0 {
		t.Error("no sandbox lives")
	}
}
