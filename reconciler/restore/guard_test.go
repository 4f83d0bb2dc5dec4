package restore_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// eventsOf are the events of one type.
func eventsOf[T restore.Event](w *restoretest.Cluster) (all []T) {
	w.Change(func() {
		for _, e := range w.Events {
			if e, is := e.(T); is {
				all = append(all, e)
			}
		}
	}, 0)
	return all
}

// haveOutcomes checks the outcomes of the fences that have ended.
func haveOutcomes(t *testing.T, w *restoretest.Cluster, want ...restore.Outcome) {
	t.Helper()
	var got []restore.Outcome
	for _, e := range eventsOf[restore.Lowered](w) {
		got = append(got, e.Outcome)
	}
	restoretest.Equal(t, "outcomes", got, want)
}

// ADDs must not wait because of an outage, or of a connection that has ended.
func TestGuard_NoFenceWithoutARestore(t *testing.T) {
	for name, outage := range map[string]func(w *restoretest.Cluster, begins bool){
		"no connection":  func(w *restoretest.Cluster, begins bool) { w.IsAway = begins },
		"no answer":      func(w *restoretest.Cluster, begins bool) { w.Hangs = begins },
		"new connection": func(w *restoretest.Cluster, begins bool) { w.Answer.HasReconnected = begins },
		"no revision":    func(w *restoretest.Cluster, begins bool) { w.IsAway, w.Answer.Revision = begins, 0 },
		"many new writes": func(w *restoretest.Cluster, begins bool) {
			w.IsAway, w.Answer.Revision = begins, w.Answer.Revision+10_000
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := restoretest.NewCluster()
			w.Answer.HasReconnected = true // as at the start of a process
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				for range 3 {
					w.Change(func() { outage(w, true) }, 20*time.Second)
					w.Change(func() { outage(w, false) }, 2*time.Second)
					w.Wait(5 * time.Minute)
				}
				restoretest.Equal(t, "fences", w.Raises, 0)
				restoretest.Equal(t, "full passes, which compare all objects", w.FullPasses, 3)
				g.ReportEvidence("a pool is older")
				w.Wait(time.Second)
				w.IsFenced(t, true)
				haveOutcomes(t, w)
			})
		})
	}
}

func TestGuard_RestoreEvidence(t *testing.T) {
	lease := func(uid, version string) restore.LeaseVersion {
		return restore.LeaseVersion{Name: "ip-reconcile", UID: types.UID(uid), ResourceVersion: version}
	}
	for name, tt := range map[string]struct {
		outage   time.Duration
		revision uint64
		lease    restore.LeaseVersion
		why      string
	}{
		"older revision":       {0, 50, lease("1", "90"), "etcd is at resourceVersion 50 after 100"},
		"older Lease":          {0, 120, lease("1", "80"), "the Lease ip-reconcile is at resourceVersion 80 after 90"},
		"bump":                 {0, 100_200, lease("1", "90"), "etcd is at resourceVersion 100200 1s after 100"},
		"another Lease":        {0, 100, lease("2", "80"), ""},
		"no Lease":             {0, 100, restore.LeaseVersion{}, ""},
		"no revision":          {0, 0, restore.LeaseVersion{}, ""},
		"many writes":          {0, 90_000, lease("1", "89000"), ""},
		"many writes, an hour": {time.Hour, 10_000_000, lease("1", "90"), ""},
		"bump, an hour": {time.Hour, 1_000_000_000, lease("1", "90"),
			"etcd is at resourceVersion 1000000000 1h0m0s after 100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := restoretest.NewCluster()
			w.Answer.Lease = lease("1", "90")
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				if tt.outage > 0 {
					w.Change(func() { w.IsAway = true }, tt.outage)
				}
				w.Change(func() {
					w.IsAway, w.Answer.Revision, w.Answer.Lease = false, tt.revision, tt.lease
				}, 1100*time.Millisecond)
				w.IsFenced(t, tt.why != "")
				restoretest.Equal(t, "recorded", strings.Join(w.Recorded, ", "), tt.why)
				restoretest.Equal(t, "requested full passes", w.FullPasses > 0, tt.why != "" || tt.outage > 0)
			})
		})
	}
}

// pass ends a full pass that began under the current fence.
func pass(g *restore.Guard, state facts.NodeState, restored string) {
	passUnder(g, g.Fence.State().Since, state, restored)
}

func passUnder(g *restore.Guard, fence time.Time, state facts.NodeState, restored string) {
	r := restoretest.Report("worker-1", time.Now())
	if state != facts.NodeFresh {
		r = restoretest.Report("worker-1", time.Now().Add(-time.Hour))
	}
	o := &facts.Observation{Restored: restored, FencedSince: fence, Reports: facts.Complete([]*podstate.Report{r}, "")}
	g.PassEnded(restore.Pass{
		Leases:    map[string][]string{"kube-system": {"whereabouts"}},
		Restore:   &restore.Status{Restored: time.Now(), Why: "older"},
		Judgement: &judge.Judgement{Observation: o, Nodes: map[string]facts.NodeState{"worker-1": state}},
	})
}

func TestGuard_LowersTheFenceWhenNoWorkRemains(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.RestoreEtcd()
		for _, before := range []time.Time{{}, time.Now().Add(-time.Minute)} { // before the fence
			passUnder(g, before, facts.NodeFresh, "")
			w.Wait(5 * time.Second)
			w.IsFenced(t, true)
		}
		pass(g, facts.NodeFresh, "older") // has detected the restore itself
		w.Wait(5 * time.Second)
		w.IsFenced(t, true)
		pass(g, facts.NodeNoFreshReport, "")
		w.Wait(5 * time.Second)
		w.IsFenced(t, true)
		restoretest.Equal(t, "fenced", g.IsFenced(), true)
		pass(g, facts.NodeFresh, "")
		w.Wait(time.Second)
		w.IsFenced(t, false)
		restoretest.Equal(t, "fenced at the end", g.IsFenced(), false)
		haveOutcomes(t, w, restore.Settled)
	})
}

func TestGuard_LowersTheFenceAtItsTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration // before this replica has raised the fence, too
		isBusy bool          // others hold the Leases all the time
	}{"work remains": {0, false}, "fence of another replica": {80 * time.Second, false}, "never complete": {0, true}} {
		t.Run(name, func(t *testing.T) {
			w := restoretest.NewCluster()
			w.Age, w.IsBusy = c.age, c.isBusy
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				w.RestoreEtcd()
				for wait := 88*time.Second - c.age; wait > 0; wait -= time.Second {
					pass(g, facts.NodeNoFreshReport, "")
					w.Wait(time.Second)
				}
				w.IsFenced(t, !c.isBusy)
				w.Wait(3 * time.Second)
				w.IsFenced(t, false)
				restoretest.Equal(t, "calls of Lower", w.Lowers, 1)
				haveOutcomes(t, w, restore.TimedOut)
			})
		})
	}
}

// Only the leader knows the remaining work of a fence that two replicas keep.
func TestGuard_SaysWhatRemains(t *testing.T) {
	for _, isLeader := range []bool{true, false} {
		w := restoretest.NewCluster()
		w.Guarded(t, func(t *testing.T, g *restore.Guard) {
			if isLeader {
				g.Lead()
			}
			w.RestoreEtcd()
			if isLeader {
				pass(g, facts.NodeNoFreshReport, "")
			}
			w.Wait(91 * time.Second)
			haveOutcomes(t, w, restore.TimedOut)
			if e := eventsOf[restore.Lowered](w)[0]; e.IsLeader != isLeader ||
				strings.Contains(e.Remaining, "worker-1") != isLeader || e.Remaining == "" || e.Age < restore.LongestFence {
				t.Errorf("leader %v: %+v", isLeader, e)
			}
		})
	}
}

// A fence is raised once, and complete once.
func TestGuard_SaysThatItRaisesTheFence(t *testing.T) {
	w := restoretest.NewCluster()
	w.IsBusy = true
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.RestoreEtcd()
		restoretest.Equal(t, "complete", len(eventsOf[restore.Complete](w)), 0)
		for range 2 {
			w.Change(func() { w.IsBusy = false }, time.Second)
			g.ReportEvidence("a pool is older")
		}
		w.Wait(time.Second)
		restoretest.Equal(t, "raised", eventsOf[restore.Raised](w),
			[]restore.Raised{{Why: "etcd is at resourceVersion 10 after 100", Timeout: restore.LongestFence}})
		restoretest.Equal(t, "complete", eventsOf[restore.Complete](w),
			[]restore.Complete{{After: 1950 * time.Millisecond, SinceOutage: 1950 * time.Millisecond}})
		restoretest.Equal(t, "outages", len(eventsOf[restore.Unreachable](w)), 1)
	})
}

func TestGuard_AnotherReplicaLowersTheFence(t *testing.T) {
	w := restoretest.NewCluster()
	w.Guarded(t, func(t *testing.T, g *restore.Guard) {
		w.RestoreEtcd()
		w.IsFenced(t, true)
		w.Change(func() { w.IsEndedByPeer = true }, time.Second)
		w.IsFenced(t, false)
		haveOutcomes(t, w, restore.ByPeer)
		restoretest.Equal(t, "fenced", g.IsFenced(), false)
	})
}

func TestGuard_WarnsOnceWithoutPools(t *testing.T) {
	w := restoretest.NewCluster()
	w.PoolLeases = nil
	w.Guarded(t, func(t *testing.T, _ *restore.Guard) {
		for i := range uint64(3) {
			w.Change(func() { w.Answer.Revision = 50 - i }, time.Minute)
		}
		restoretest.Equal(t, "fences", w.Raises, 0)
		restoretest.Equal(t, "warnings", eventsOf[restore.NotRaised](w),
			[]restore.NotRaised{{Why: "etcd is at resourceVersion 50 after 100"}})
	})
}
