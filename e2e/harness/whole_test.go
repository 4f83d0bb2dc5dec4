package harness

import (
	"testing"
	"time"
)

// startWhole is start for a whole cluster.
func startWhole(t *testing.T, workers int) *WholeCluster {
	t.Helper()
	if why := ContainerdV2.Unsupported(); why != "" {
		t.Skip(why)
	}
	began := time.Now()
	w := StartWhole(t, workers)
	t.Logf("the cluster was ready after %.1fs", time.Since(began).Seconds())
	return w
}

func TestAWholeCluster(t *testing.T) {
	t.Parallel()
	startWhole(t, 2)
}
