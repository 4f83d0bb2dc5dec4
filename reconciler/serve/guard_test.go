package serve

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func aCluster() *guardedCluster {
	return &guardedCluster{leases: map[string][]string{"kube-system": {"whereabouts"}}}
}

func (g *Guard) outcomes(t *testing.T, want map[string]float64) {
	t.Helper()
	for _, outcome := range []string{outcomeSettled, outcomeTimedOut} {
		m := &dto.Metric{}
		if err := g.Metrics.fences.WithLabelValues(outcome).Write(m); err != nil {
			t.Fatal(err)
		}
		equal(t, "fences that ended "+outcome, m.GetCounter().GetValue(), want[outcome])
	}
}

func TestNoFenceIsRaisedWhileTheAPIServerAnswers(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		for range 600 {
			w.is(func() { w.revision++ }, time.Second)
		}
		equal(t, "raised", w.raised, 0)
	})
}

// ADDs must not wait because the API server was away, or a connection has ended.
func TestNoFenceIsRaisedAfterAnOutageWhereNothingWasRestored(t *testing.T) {
	for name, gone := range map[string]func(w *guardedCluster, is bool){
		"no connection":       func(w *guardedCluster, is bool) { w.away = is },
		"no answer":           func(w *guardedCluster, is bool) { w.hangs = is },
		"a connection alone":  func(w *guardedCluster, is bool) { w.answer.HasReconnected = is },
		"not all is served":   func(w *guardedCluster, is bool) { w.away, w.revision = is, 0 },
		"much is written now": func(w *guardedCluster, is bool) { w.away, w.revision = is, w.revision+10_000 },
	} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			guarded(t, w, func(t *testing.T, g *Guard) {
				for range 3 {
					w.is(func() { gone(w, true) }, 20*time.Second)
					w.is(func() { gone(w, false) }, 2*time.Second)
					w.is(func() {}, 5*time.Minute)
				}
				equal(t, "raised", w.raised, 0)
				equal(t, "full passes are asked for, which compare all objects", w.passes, 3)
				g.ReportRestore("a pool is older", time.Now())
				w.is(func() {}, time.Second)
				w.stands(t, true)
				g.outcomes(t, nil)
			}, func(*Guard) { w.answer.HasReconnected = true }) // as every process begins
		})
	}
}

func TestAPingThatShowsARestoreRaisesTheFence(t *testing.T) {
	lease := func(version string) kube.Answer {
		return kube.Answer{Lease: kube.Version{UID: "1", ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		passes time.Duration // without the API server
		now    func(w *guardedCluster)
		why    []string
	}{
		"the revision ran backwards":   {0, func(w *guardedCluster) { w.revision = 50 }, []string{"etcd is at resourceVersion 50 after 100"}},
		"the Lease ran backwards":      {0, func(w *guardedCluster) { w.revision, w.answer = 120, lease("80") }, []string{"the Lease ip-reconcile is at resourceVersion 80 after 90"}},
		"the revision was bumped":      {0, func(w *guardedCluster) { w.revision = 100_200 }, []string{"etcd is at resourceVersion 100200 1s after 100"}},
		"the Lease was made again":     {0, func(w *guardedCluster) { w.answer.Lease = kube.Version{UID: "2", ResourceVersion: "80"} }, nil},
		"there is no Lease":            {0, func(w *guardedCluster) { w.answer.Lease = kube.Version{} }, nil},
		"the ping is refused":          {0, func(w *guardedCluster) { w.revision, w.answer = 0, kube.Answer{} }, nil},
		"much was written":             {0, func(w *guardedCluster) { w.revision, w.answer = 90_000, lease("89000") }, nil},
		"much was written in an hour":  {time.Hour, func(w *guardedCluster) { w.revision = 10_000_000 }, nil},
		"it was bumped within an hour": {time.Hour, func(w *guardedCluster) { w.revision = 1_000_000_000 }, []string{"etcd is at resourceVersion 1000000000 1h0m0s after 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			w.answer = lease("90")
			guarded(t, w, func(t *testing.T, g *Guard) {
				if tt.passes > 0 {
					w.is(func() { w.away = true }, tt.passes)
				}
				w.is(func() { w.away = false; tt.now(w) }, 1100*time.Millisecond)
				w.stands(t, tt.why != nil)
				equal(t, "the source was told", w.restored, tt.why)
				equal(t, "the other replica is told", w.know, strings.Join(tt.why, ""))
				equal(t, "full passes were asked for", w.passes > 0, tt.why != nil || tt.passes > 0)
			})
		})
	}
}

// restore makes the guard notice a restore.
func (w *guardedCluster) restore() {
	w.is(func() { w.away = true }, 20*time.Second)
	w.is(func() { w.away, w.revision = false, 10 }, time.Second)
}

// pass ends a full pass that began behind the fence as it stands now.
func (g *Guard) pass(nodes map[string]judge.NodeState, restored string) {
	g.passBehind(g.Fence.State().Since, nodes, restored)
}

func (g *Guard) passBehind(fence time.Time, nodes map[string]judge.NodeState, restored string) {
	o := &judge.Observation{Restored: restored, FencedSince: fence, Pools: []*ippool.Pool{aPool("10.0.0.0-24", "10.0.0.0/24")}}
	for name, state := range nodes {
		r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: name}}, ConfirmedAt: time.Now()}
		if state != judge.NodeFresh {
			r.ConfirmedAt = time.Now().Add(-time.Hour)
		}
		o.Reports = append(o.Reports, r)
	}
	state := &judge.RestoreState{Restored: time.Now(), Why: "it ran backwards"}
	g.PassEnded(&reconciler.Result{Judgement: &judge.Judgement{Observation: o, Nodes: nodes, Restore: state}})
}

// A pool that a restore has lost is made again under the Lease of its ADDs, also where no pool
// is left that tells which one that is.
func TestTheFenceHoldsTheLeaseOfAPoolThatIsNotThere(t *testing.T) {
	g := NewGuard(GuardConfig{})
	missing := ippool.NewPool("kube-system", "blue", netip.MustParsePrefix("10.0.0.0/24"))
	g.PassEnded(&reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{},
		Findings: []judge.Finding{{Kind: judge.Unrecorded, Repair: &judge.Repair{Pool: missing, NewPool: true}}, {Kind: judge.Conflict}}}})
	if got := fmt.Sprint(g.passLeases); got != "map[kube-system:[whereabouts]]" {
		t.Errorf("it holds %s", got)
	}
}

func TestAFenceForARestoreStandsUntilNothingRemains(t *testing.T) {
	fresh, stale := map[string]judge.NodeState{"worker-1": judge.NodeFresh}, map[string]judge.NodeState{"worker-1": judge.NodeNoFreshReport}
	t.Run("nothing remains", func(t *testing.T) {
		w := aCluster()
		guarded(t, w, func(t *testing.T, g *Guard) {
			w.restore()
			g.pass(fresh, "it ran backwards") // which is the pass that shows it
			w.is(func() {}, 5*time.Second)
			w.stands(t, true)
			g.pass(stale, "")
			w.is(func() {}, 5*time.Second)
			w.stands(t, true)
			equal(t, "passes follow each other", g.IsFenced(), true)
			g.pass(fresh, "")
			w.is(func() {}, time.Second)
			w.stands(t, false)
			equal(t, "passes follow each other afterwards", g.IsFenced(), false)
			g.outcomes(t, map[string]float64{outcomeSettled: 1})
		})
	})
	t.Run("a pass that began before it stood settles nothing", func(t *testing.T) {
		w := aCluster()
		guarded(t, w, func(t *testing.T, g *Guard) {
			w.restore()
			w.is(func() {}, 15*time.Second)
			for _, before := range []time.Time{{}, time.Now().Add(-time.Minute)} {
				g.passBehind(before, fresh, "")
				w.is(func() {}, 5*time.Second)
				w.stands(t, true)
			}
		})
	})
}

func TestAFenceForARestoreIsLoweredWhenItsTimeIsUp(t *testing.T) {
	t.Run("something remains", func(t *testing.T) {
		w := aCluster()
		guarded(t, w, func(t *testing.T, g *Guard) {
			w.restore()
			for range 88 {
				g.pass(map[string]judge.NodeState{"worker-1": judge.NodeNoFreshReport}, "")
				w.is(func() {}, time.Second)
			}
			w.stands(t, true)
			w.is(func() {}, 2*time.Second)
			w.stands(t, false)
			g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
		})
	})
	t.Run("taken over from another replica when it was 80 s old", func(t *testing.T) {
		w := aCluster()
		w.age = 80 * time.Second
		guarded(t, w, func(t *testing.T, g *Guard) {
			w.restore()
			w.is(func() {}, 8*time.Second)
			w.stands(t, true)
			w.is(func() {}, 3*time.Second)
			w.stands(t, false)
			g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
		})
	})
	t.Run("never had", func(t *testing.T) {
		w := aCluster()
		w.busy = true
		guarded(t, w, func(t *testing.T, g *Guard) {
			w.restore()
			w.is(func() {}, 91*time.Second)
			equal(t, "lowered", w.lowered, 1)
			g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
		})
	})
}

// Two replicas keep one fence, and the one that leads alone knows what was left.
func TestWhatATimedOutFenceHasLeftIsToldByTheReplicaThatLeads(t *testing.T) {
	for name, leads := range map[string]bool{"leads": true, "does not lead": false} {
		t.Run(name, func(t *testing.T) {
			w, events := aCluster(), record.NewFakeRecorder(10)
			guarded(t, w, func(t *testing.T, g *Guard) {
				if leads {
					g.Lead()
				}
				w.restore()
				if leads {
					g.pass(map[string]judge.NodeState{"worker-1": judge.NodeNoFreshReport}, "")
				}
				w.is(func() {}, 91*time.Second)
				g.outcomes(t, map[string]float64{outcomeTimedOut: 1})
			}, func(g *Guard) { g.Events = &Events{EventRecorder: events} })
			close(events.Events)
			var told []string
			for e := range events.Events {
				if strings.Contains(e, "FenceTimedOut") {
					told = append(told, e)
				}
			}
			if (len(told) == 1 && strings.Contains(told[0], "worker-1")) != leads || len(told) > 1 {
				t.Errorf("the events are %q", told)
			}
		})
	}
}

func TestWhatAPassOrAnAgentShowsRaisesTheFence(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		g.ReportRestore("the agent of worker-1 saw it", time.Now())
		w.is(func() {}, 100*time.Millisecond)
		w.stands(t, true)
	})
}

func TestAReplicaThatKnowsOfNoRestoreLearnsItFromTheOne(t *testing.T) {
	fresh := map[string]judge.NodeState{"worker-1": judge.NodeFresh}
	t.Run("that kept it before this one began to lead", func(t *testing.T) {
		w := aCluster()
		w.others = "a pool is older"
		guarded(t, w, func(t *testing.T, g *Guard) {
			g.pass(fresh, "")
			w.is(func() {}, time.Second)
			w.stands(t, false) // it does not lead
			g.Lead()
			g.pass(fresh, "")
			w.is(func() {}, time.Second)
			w.stands(t, true)
		})
	})
}

func TestAFenceThatTheOtherReplicaHasLoweredIsOver(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.restore()
		w.stands(t, true)
		w.is(func() { w.dropped = true }, time.Second)
		w.stands(t, false)
		g.outcomes(t, nil)
		equal(t, "passes follow each other", g.IsFenced(), false)
	})
}

func TestWhereItIsNotKnownWherePoolsAreThereIsNoFenceAndThatIsSaidOnce(t *testing.T) {
	w := &guardedCluster{}
	var said strings.Builder
	guarded(t, w, func(t *testing.T, g *Guard) {
		for i := range uint64(3) {
			w.is(func() { w.revision = 50 - i }, time.Minute)
		}
		equal(t, "raised", w.raised, 0)
		equal(t, "said", strings.Count(said.String(), "Cannot raise the fence"), 1)
	}, func(g *Guard) { g.Log = slog.New(slog.NewTextHandler(&said, nil)) })
}
