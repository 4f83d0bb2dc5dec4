package serve

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func aCluster() *guardedCluster {
	return &guardedCluster{leases: map[string][]string{"kube-system": {"whereabouts"}}}
}

// outcomes checks the number of fences by outcome.
func (g *Guard) outcomes(t *testing.T, want map[string]float64) {
	t.Helper()
	for _, outcome := range []string{outcomeSettled, outcomeTimedOut} {
		m := &dto.Metric{}
		if err := g.Metrics.fences.WithLabelValues(outcome).Write(m); err != nil {
			t.Fatal(err)
		}
		equal(t, "fences of outcome "+outcome, m.GetCounter().GetValue(), want[outcome])
	}
}

// ADDs must not wait because of an outage, or of a connection that has ended.
func TestGuard_NoFenceWithoutARestore(t *testing.T) {
	for name, outage := range map[string]func(w *guardedCluster, begins bool){
		"no connection":   func(w *guardedCluster, begins bool) { w.away = begins },
		"no answer":       func(w *guardedCluster, begins bool) { w.hangs = begins },
		"new connection":  func(w *guardedCluster, begins bool) { w.answer.HasReconnected = begins },
		"no revision":     func(w *guardedCluster, begins bool) { w.away, w.revision = begins, 0 },
		"many new writes": func(w *guardedCluster, begins bool) { w.away, w.revision = begins, w.revision+10_000 },
	} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			guarded(t, w, func(t *testing.T, g *Guard) {
				for range 3 {
					w.change(func() { outage(w, true) }, 20*time.Second)
					w.change(func() { outage(w, false) }, 2*time.Second)
					w.wait(5 * time.Minute)
				}
				equal(t, "fences", w.raises, 0)
				equal(t, "full passes, which compare all objects", w.passes, 3)
				g.ReportRestore("a pool is older", time.Now())
				w.wait(time.Second)
				w.isFenced(t, true)
				g.outcomes(t, nil)
			}, func(*Guard) { w.answer.HasReconnected = true }) // as at the start of a process
		})
	}
}

func TestGuard_RestoreEvidence(t *testing.T) {
	lease := func(uid, version string) kube.Answer {
		return kube.Answer{Lease: kube.Version{UID: types.UID(uid), ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		outage   time.Duration
		revision uint64
		answer   kube.Answer
		why      string
	}{
		"older revision":       {0, 50, lease("1", "90"), "etcd is at resourceVersion 50 after 100"},
		"older Lease":          {0, 120, lease("1", "80"), "the Lease ip-reconcile is at resourceVersion 80 after 90"},
		"bump":                 {0, 100_200, lease("1", "90"), "etcd is at resourceVersion 100200 1s after 100"},
		"another Lease":        {0, 100, lease("2", "80"), ""},
		"no Lease":             {0, 100, kube.Answer{}, ""},
		"no revision":          {0, 0, kube.Answer{}, ""},
		"many writes":          {0, 90_000, lease("1", "89000"), ""},
		"many writes, an hour": {time.Hour, 10_000_000, lease("1", "90"), ""},
		"bump, an hour": {time.Hour, 1_000_000_000, lease("1", "90"),
			"etcd is at resourceVersion 1000000000 1h0m0s after 100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			w.answer = lease("1", "90")
			guarded(t, w, func(t *testing.T, g *Guard) {
				if tt.outage > 0 {
					w.change(func() { w.away = true }, tt.outage)
				}
				w.change(func() { w.away, w.revision, w.answer = false, tt.revision, tt.answer }, 1100*time.Millisecond)
				w.isFenced(t, tt.why != "")
				equal(t, "recorded", strings.Join(w.restored, ", "), tt.why)
				equal(t, "on the Leases", w.why, tt.why)
				equal(t, "requested full passes", w.passes > 0, tt.why != "" || tt.outage > 0)
			})
		})
	}
}

// restore restores etcd.
func (w *guardedCluster) restore() {
	w.change(func() { w.away = true }, 20*time.Second)
	w.change(func() { w.away, w.revision = false, 10 }, time.Second)
}

// pass ends a full pass that began under the current fence.
func (g *Guard) pass(state judge.NodeState, restored string) {
	g.passUnder(g.Fence.State().Since, state, restored)
}

func (g *Guard) passUnder(fence time.Time, state judge.NodeState, restored string) {
	r := aReport("worker-1", time.Now())
	if state != judge.NodeFresh {
		r = aReport("worker-1", time.Now().Add(-time.Hour))
	}
	o := &judge.Observation{Restored: restored, FencedSince: fence, Reports: judge.Complete([]*podstate.Report{r}, "")}
	o.Pools = append(o.Pools, aPool("10.0.0.0-24", "10.0.0.0/24"))
	restore := &judge.RestoreState{Restored: time.Now(), Why: "older"}
	g.PassEnded(&reconciler.Result{Judgement: &judge.Judgement{Observation: o, Restore: restore,
		Nodes: map[string]judge.NodeState{"worker-1": state}}})
}

// A repair recreates a lost pool under the Lease of its ADDs.
func TestGuard_HoldsTheLeaseOfALostPool(t *testing.T) {
	g := NewGuard(GuardConfig{})
	pool := ippool.NewPool("kube-system", "blue", netip.MustParsePrefix("10.0.0.0/24"))
	repair := judge.Finding{Kind: judge.Unrecorded, Repair: &judge.Repair{Pool: pool, NewPool: true}}
	g.PassEnded(&reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{},
		Findings: []judge.Finding{repair, {Kind: judge.Conflict}}}})
	equal(t, "Leases", g.passLeases, "map[kube-system:[whereabouts]]")
}

func TestGuard_LowersTheFenceWhenNoWorkRemains(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.restore()
		for _, before := range []time.Time{{}, time.Now().Add(-time.Minute)} { // before the fence
			g.passUnder(before, judge.NodeFresh, "")
			w.wait(5 * time.Second)
			w.isFenced(t, true)
		}
		g.pass(judge.NodeFresh, "older") // has detected the restore itself
		w.wait(5 * time.Second)
		w.isFenced(t, true)
		g.pass(judge.NodeNoFreshReport, "")
		w.wait(5 * time.Second)
		w.isFenced(t, true)
		equal(t, "fenced", g.IsFenced(), true)
		g.pass(judge.NodeFresh, "")
		w.wait(time.Second)
		w.isFenced(t, false)
		equal(t, "fenced at the end", g.IsFenced(), false)
		g.outcomes(t, map[string]float64{outcomeSettled: 1})
	})
}

func TestGuard_LowersTheFenceAtItsTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration // before this replica has raised the fence, too
		isBusy bool          // others hold the Leases all the time
	}{"work remains": {0, false}, "fence of another replica": {80 * time.Second, false}, "never complete": {0, true}} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			w.age, w.isBusy = c.age, c.isBusy
			guarded(t, w, func(t *testing.T, g *Guard) {
				w.restore()
				for wait := 88*time.Second - c.age; wait > 0; wait -= time.Second {
					g.pass(judge.NodeNoFreshReport, "")
					w.wait(time.Second)
				}
				w.isFenced(t, !c.isBusy)
				w.wait(3 * time.Second)
				w.isFenced(t, false)
				equal(t, "calls of Lower", w.lowers, 1)
				g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
			})
		})
	}
}

// Only the leader knows the remaining work of a fence that two replicas keep.
func TestGuard_EventOfTheLeader(t *testing.T) {
	for _, isLeader := range []bool{true, false} {
		w, events := aCluster(), record.NewFakeRecorder(10)
		guarded(t, w, func(t *testing.T, g *Guard) {
			if isLeader {
				g.Lead()
			}
			w.restore()
			if isLeader {
				g.pass(judge.NodeNoFreshReport, "")
			}
			w.wait(91 * time.Second)
			g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
		}, func(g *Guard) { g.Events = &Events{EventRecorder: events} })
		close(events.Events)
		var timeouts []string
		for e := range events.Events {
			if strings.Contains(e, "FenceTimedOut") {
				timeouts = append(timeouts, e)
			}
		}
		if text := fmt.Sprint(timeouts); strings.Contains(text, "worker-1") != isLeader || len(timeouts) > 1 {
			t.Errorf("leader %v: %s", isLeader, text)
		}
	}
}

func TestGuard_NewLeaderJoinsTheFenceOfAnother(t *testing.T) {
	w := aCluster()
	w.peer = "a pool is older"
	guarded(t, w, func(t *testing.T, g *Guard) {
		g.pass(judge.NodeFresh, "")
		w.wait(time.Second)
		w.isFenced(t, false)
		g.Lead()
		g.pass(judge.NodeFresh, "")
		w.wait(time.Second)
		w.isFenced(t, true)
	})
}

func TestGuard_AnotherReplicaLowersTheFence(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.restore()
		w.isFenced(t, true)
		w.change(func() { w.endedByPeer = true }, time.Second)
		w.isFenced(t, false)
		g.outcomes(t, nil)
		equal(t, "fenced", g.IsFenced(), false)
	})
}

func TestGuard_WarnsOnceWithoutPools(t *testing.T) {
	w := &guardedCluster{}
	var log strings.Builder
	guarded(t, w, func(t *testing.T, g *Guard) {
		for i := range uint64(3) {
			w.change(func() { w.revision = 50 - i }, time.Minute)
		}
		equal(t, "fences", w.raises, 0)
		equal(t, "warnings", strings.Count(log.String(), "Cannot raise the fence"), 1)
	}, func(g *Guard) { g.Log = slog.New(slog.NewTextHandler(&log, nil)) })
}
