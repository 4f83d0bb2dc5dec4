package restore_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// API servers restart after a restore, for longer than a fence may last. No ADD waits for the fence meanwhile, and its
// Leases expire.
func TestGuard_OutageDuringAFence(t *testing.T) {
	for _, outage := range []time.Duration{95 * time.Second, 80 * time.Second} {
		t.Run(outage.String(), func(t *testing.T) {
			w := restoretest.NewCluster()
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				w.RestoreEtcd()
				w.IsFenced(t, true)
				w.Change(func() { w.IsAway, w.StandsSince = true, time.Time{} }, outage) // the Leases expire
				w.Change(func() { w.IsAway = false }, time.Second)
				restoretest.Equal(t, "fenced", g.IsFenced(), true)
				w.Wait(16 * time.Second) // for the agents, by docs/operate/restore.md
				restoretest.Equal(t, "fenced for the agents", g.IsFenced(), true)
				haveOutcomes(t, w)
			})
		})
	}
}

// A new leader reports the restore for which it has kept the fence before.
func TestGuard_OneFencePerRestore(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.RestoreEtcd()
		w.Wait(92 * time.Second)
		w.IsFenced(t, false)
		w.Wait(10 * time.Second)
		g.Lead()
		why := w.Recorded[len(w.Recorded)-1]
		for _, report := range []func(){
			func() { g.ReportEvidence(why) }, // its first pass
			func() { g.ReportRestore("first", why) },
			func() { g.ReportRestore("first", why) },
		} {
			report()
			w.Wait(time.Second)
			w.IsFenced(t, false)
		}
		for _, report := range []func(){
			func() { g.ReportRestore("second", why) }, // the same backup, restored once more
			func() { g.ReportRestore("third", "") },   // of which the stored state has no evidence
			func() { g.ReportEvidence(why) },          // and again
		} {
			report()
			w.Wait(time.Second)
			w.IsFenced(t, true)
			w.Wait(20 * time.Minute)
			w.IsFenced(t, false)
		}
	})
}

// A process that starts under the fence of another replica, and leads, works under it. That is no restore of its own.
func TestGuard_JoinsTheFenceOfAPeer(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		g.Lead()
		g.Join()
		w.Wait(time.Second)
		w.IsFenced(t, true)
		g.Join() // as each hold says until then
		w.Wait(92 * time.Second)
		w.IsFenced(t, false)
		g.ReportRestore("first", "etcd was restored")
		w.Wait(time.Second)
		w.IsFenced(t, true)
	})
}

// A person runs recover beside serve, which knows of no restore, and whose hold meets that fence. serve works under it,
// and leaves it to recover then: ADDs do not wait for 90 s, no event says FenceTimedOut, and no Lease of recover's is
// cleared. Of a fence that serve has raised itself the pass must have observed the restore: TestGuard_RemainingWork.
func TestGuard_JoinsAFenceWithoutARestore(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		g.Lead()
		g.Join()
		w.Wait(time.Second)
		pass := func(toRepair int) {
			o := facts.Observation{FencedSince: w.StandsSince, Reports: facts.Complete(
				[]*podstate.Report{restoretest.Report("worker-1", time.Now())}, "")}
			g.PassEnded(restore.Pass{ToRepair: toRepair, Judgement: &judge.Judgement{Observation: &o,
				Nodes: map[string]facts.NodeState{"worker-1": facts.NodeFresh}}})
			w.Wait(time.Second)
		}
		pass(0)
		w.IsFenced(t, true) // for the agents
		w.Wait(10 * time.Second)
		pass(1)
		w.IsFenced(t, true)
		haveOutcomes(t, w)
		pass(0)
		haveOutcomes(t, w, restore.Settled)
		restoretest.Equal(t, "calls of Leave and Lower", []int{w.Leaves, w.Lowers}, []int{1, 0})
		w.Wait(restore.LongestFence)
		haveOutcomes(t, w, restore.Settled)
	})
}

// A restore may lose the pool of which a pod has an address.
func TestGuard_KeepsLeasesOfLostPools(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.Change(func() { w.IsAway = true }, 5*time.Second)
		w.Change(func() { w.IsAway, w.PoolLeases = false, map[string][]string{"other": {"whereabouts"}} }, 20*time.Second)
		g.ReportEvidence("a pool is older")
		w.Wait(time.Second)
		want := map[string][]string{"kube-system": {"whereabouts"}, "other": {"whereabouts"}}
		restoretest.Equal(t, "Leases", w.Asked, want)
	})
}

func TestGuard_LeavesTheFenceToOthers(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(*testing.T, *restore.Guard) { w.RestoreEtcd() })
	restoretest.Equal(t, "calls of Leave and Lower", []int{w.Leaves, w.Lowers}, []int{1, 0})
}
