package restore_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// The API server restarts once more under the fence of a restore whose ID was reported. The next restore, which only an
// agent shows, has a fence, too.
func TestGuard_OutageUnderANamedFence(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		g.Lead()
		w.RestoreEtcd()
		g.ReportRestore("first", w.Recorded[0])
		w.Wait(time.Second)
		w.Change(func() { w.IsAway, w.StandsSince = true, time.Time{} }, 20*time.Second)
		w.Change(func() { w.IsAway = false }, time.Second)
		w.IsFenced(t, true)
		w.Wait(15 * time.Second)
		pass(g, facts.NodeFresh, "")
		w.Wait(time.Second)
		w.IsFenced(t, false)
		w.Wait(5 * time.Minute)
		g.ReportRestore("second", "reported by the agent on node worker-1")
		w.Wait(time.Second)
		w.IsFenced(t, true)
	})
}

// A replica that does not lead has kept the fence of a restore, and never learned its ID. It leads a day later, and an
// agent shows another restore.
func TestGuard_FenceOfAFollower(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.RestoreEtcd()
		w.Change(func() { w.IsEndedByPeer = true }, time.Second)
		w.IsFenced(t, false)
		w.Change(func() { w.IsEndedByPeer = false }, 24*time.Hour)
		g.Lead()
		g.ReportRestore("second", "reported by the agent on node worker-1")
		w.Wait(time.Second)
		w.IsFenced(t, true)
	})
}

// The first pass of a process reports a restore, and then the Leases of the pools. The Guard runs in between, and the
// caches are not synced yet.
func TestGuard_LeasesAfterTheRestore(t *testing.T) {
	w := restoretest.NewCluster()
	w.PoolLeases = nil
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		g.Lead()
		g.ReportRestore("first", "reported by the agent on node worker-1")
		w.Wait(10 * time.Millisecond)
		for range 3 {
			g.PassEnded(restore.Pass{Leases: map[string][]string{"kube-system": {"whereabouts"}},
				Judgement: &judge.Judgement{Observation: &facts.Observation{}}})
			g.ReportRestore("first", "reported by the agent on node worker-1")
			w.Wait(time.Second)
		}
		w.IsFenced(t, true)
	})
}
