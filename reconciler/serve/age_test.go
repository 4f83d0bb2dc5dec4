package serve

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func recorderOf(registry *prometheus.Registry) *Recorder {
	r := newRecorder(&strings.Builder{})
	r.Metrics = NewMetrics(registry)
	return r
}

func TestSinceWhenTheFirstIsHeldByReason(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := recorderOf(registry)
	const malformed, finished = "no podref", "default/finished"
	pod := judgetest.Pod("finished", judgetest.Phase("Succeeded"), judgetest.NoNetworkStatus)
	pool := func(podRefs ...string) judgetest.Part {
		var allocs []judgetest.Allocation
		for i, ref := range podRefs {
			allocs = append(allocs, judgetest.Alloc(fmt.Sprint(i+1), ref, fmt.Sprint("box-", i), "net1"))
		}
		return judgetest.Pool("10.0.0.0-24", "10.0.0.0/24", allocs...)
	}
	at := func(minutes int) float64 {
		return float64(judgetest.Now.Add(time.Duration(minutes) * time.Minute).Unix())
	}
	for _, c := range []struct {
		minute int
		parts  []judgetest.Part
		want   map[string]float64
	}{
		{0, []judgetest.Part{pool(malformed)}, map[string]float64{"Malformed": at(0)}},
		{10, []judgetest.Part{pool(malformed, malformed)}, map[string]float64{"Malformed": at(0)}},
		{20, []judgetest.Part{pool("default/bystander", malformed), pod}, map[string]float64{"Malformed": at(10)}},
		{30, []judgetest.Part{pool(finished, malformed), pod}, map[string]float64{"Malformed": at(10), "TerminalButRunning": at(30)}},
		{40, []judgetest.Part{pool(finished), pod, judgetest.Reservation("10.0.0.1", finished, judgetest.LongAgo)}, map[string]float64{"TerminalButRunning": at(30)}},
		{45, []judgetest.Part{pool(finished), judgetest.Pod("finished", judgetest.NoNetworkStatus, judgetest.DeletedAgo(-2*time.Hour))}, map[string]float64{"Terminating": at(45)}},
		{50, []judgetest.Part{pool(), judgetest.Reservation("10.0.0.9", malformed, judgetest.LongAgo)}, map[string]float64{"Malformed": at(50)}}, // a reservation alone
		{60, []judgetest.Part{pool()}, map[string]float64{}},
	} {
		parts := append([]judgetest.Part{judgetest.At(judgetest.Now.Add(time.Duration(c.minute) * time.Minute)), judgetest.Pod("bystander", judgetest.Carrying("10.0.0.1"))}, c.parts...)
		r.record(&reconciler.Result{Judgement: judgetest.Judged(judgetest.Observe(parts...), judge.Policy{})})
		if got := series(t, registry, "oldest_held_timestamp_seconds"); !maps.Equal(got, c.want) {
			t.Errorf("minute %d: %v, want %v", c.minute, got, c.want)
		}
	}
}

// What alerts read while one of 5,000 nodes is down: IPReconcileNoFreshReport a ratio of 0, IPReconcileAddressHeld an
// age by NodeUnreachable. e2e's TestAlertsOfAFleet has the alerts.
func TestAFleetOfWhichANodeIsDown(t *testing.T) {
	const nodes = 5000
	registry := prometheus.NewRegistry()
	r := recorderOf(registry)
	var entries []judgetest.Allocation
	var parts []judgetest.Part
	for n := range nodes {
		node, pod, ip := fmt.Sprint("worker-", n), fmt.Sprint("web-", n), fmt.Sprintf("10.0.%d.%d", (n+1)/256, (n+1)%256)
		entries = append(entries, judgetest.Alloc(fmt.Sprint(n+1), "default/"+pod, "box-"+pod, "net1"))
		if n == 7 {
			parts = append(parts, judgetest.Node(node, judgetest.NotReadyFor(time.Hour)), judgetest.StaleReport(node),
				judgetest.Pod(pod, judgetest.OnNode(node), judgetest.DeletedAgo(time.Hour))) // evicted
			continue
		}
		parts = append(parts, judgetest.Node(node), judgetest.FreshReport(node, judgetest.Sandbox("box-"+pod, judgetest.UsualUID, judgetest.OfPod(pod))),
			judgetest.Pod(pod, judgetest.OnNode(node), judgetest.Carrying(ip)))
	}
	// Of a pod that is gone nothing tells on which node it was.
	entries = append(entries, judgetest.Alloc(fmt.Sprint(nodes+1), "default/gone", "box-gone", "net1"))
	parts = append(parts, judgetest.Pool("10.0.0.0-16", "10.0.0.0/16", entries...))
	r.record(&reconciler.Result{Judgement: judgetest.Judged(judgetest.Observe(parts...), judge.Policy{})})
	for metric, want := range map[string]map[string]float64{
		"nodes":                         {"Fresh": nodes - 1, "NoFreshReport": 0, "NotReady": 1, "Dead": 0},
		"candidates":                    {"": 0},
		"oldest_held_timestamp_seconds": {"NodeUnreachable": float64(judgetest.Now.Unix())},
	} {
		if got := series(t, registry, metric); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
}

// A Ready node without a report is another matter: its agent does not work.
func TestANodeThatIsReadyHasNoFreshReport(t *testing.T) {
	registry := prometheus.NewRegistry()
	recorderOf(registry).record(&reconciler.Result{Judgement: judgetest.Judged(judgetest.Observe(judgetest.UsualPool, judgetest.ReportingWorker(),
		judgetest.Node("worker-2"), judgetest.Node("worker-3", judgetest.NotReadyFor(time.Minute))), judge.Policy{})})
	want := map[string]float64{"Fresh": 1, "NoFreshReport": 1, "NotReady": 1, "Dead": 0}
	if got := series(t, registry, "nodes"); !maps.Equal(got, want) {
		t.Errorf("nodes %v, want %v", got, want)
	}
}

// releases are how many were released within so many seconds, and in all.
func releases(t *testing.T, m *Metrics, proof string, within float64) (n, all uint64) {
	t.Helper()
	var out dto.Metric
	if err := m.releaseTime.WithLabelValues(proof).(prometheus.Metric).Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, b := range out.GetHistogram().GetBucket() {
		if b.GetUpperBound() == within {
			return b.GetCumulativeCount(), out.GetHistogram().GetSampleCount()
		}
	}
	t.Fatalf("there is no bucket of %v seconds, by which there is an alert", within)
	return 0, 0
}

// The objectives are those of docs/metrics.md, by the default --confirm-after.
func TestWhatIsReleasedIsCountedByHowLongItWasStale(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{ConfirmAfter: 15 * time.Minute}, func(t *testing.T, s *Server) {
		m := s.Recorder.Metrics
		if _, all := releases(t, m, proven, 60); all != 0 {
			t.Errorf("%d releases before the first", all)
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.Changed()
		c.sleep(20 * time.Minute)
		if in, all := releases(t, m, unconfirmed, 1200); in != 1 || all != 1 {
			t.Errorf("%d of %d releases in time", in, all)
		}
		if in, _ := releases(t, m, unconfirmed, 900); in != 0 {
			t.Error("it was released before it was confirmed")
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.fails["10.1.0.0-24"] = fmt.Errorf("it fails")
		s.Requests.Changed()
		c.sleep(25 * time.Minute)
		c.mu.Lock()
		delete(c.fails, "10.1.0.0-24")
		c.mu.Unlock()
		c.sleep(time.Minute)
		if in, all := releases(t, m, unconfirmed, 1200); in != 1 || all != 2 {
			t.Errorf("after one was kept by a fault, %d of %d in time", in, all)
		}
		if _, all := releases(t, m, proven, 60); all != 0 {
			t.Errorf("%d proven releases", all)
		}
	})
}

func TestProvenReleasesAreCountedAsSuch(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	j := judgetest.Judged(judgetest.Observe(judgetest.Pod("bystander")), judge.Policy{})
	m.update(&reconciler.Result{Judgement: j, Delays: []reconciler.Delay{{Proven: true, After: time.Minute}, {Proven: true, After: 61 * time.Second}, {After: 2 * time.Second}}}, nil)
	if in, all := releases(t, m, proven, 60); in != 1 || all != 2 {
		t.Errorf("%d of %d within 60 s", in, all)
	}
	if _, all := releases(t, m, unconfirmed, 1200); all != 1 {
		t.Errorf("%d unconfirmed", all)
	}
}
