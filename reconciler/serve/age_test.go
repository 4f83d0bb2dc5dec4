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

// A node that is down is no node whose agent fails: IPReconcileNoFreshReport reads a ratio of 0, IPReconcileAddressHeld an
// age by NodeUnreachable. e2e's TestAlertsOfAFleet has the alerts.
func TestNodesByState(t *testing.T) {
	for _, c := range []struct {
		other judgetest.Part
		nodes map[string]float64
		held  float64 // since when by NodeUnreachable
	}{
		{judgetest.FreshReport("worker-2"), map[string]float64{"Fresh": 2, "NoFreshReport": 0, "NotReady": 1, "Dead": 0}, float64(judgetest.Now.Unix())},
		{judgetest.Nothing, map[string]float64{"Fresh": 1, "NoFreshReport": 1, "NotReady": 1, "Dead": 0}, 0}, // its agent does not work
	} {
		registry := prometheus.NewRegistry()
		recorderOf(registry).record(&reconciler.Result{Judgement: judgetest.Judged(judgetest.Observe(
			judgetest.ReportingWorker(judgetest.Sandbox("box-1", judgetest.UsualUID, judgetest.OfPod("web-1"))), judgetest.Pod("web-1", judgetest.Carrying("10.0.0.1")),
			judgetest.Node("worker-2"), c.other, judgetest.Node("worker-3", judgetest.NotReadyFor(time.Hour)), judgetest.StaleReport("worker-3"),
			judgetest.Pod("web-3", judgetest.OnNode("worker-3"), judgetest.DeletedAgo(time.Hour)), // evicted
			judgetest.Pool("10.0.0.0-24", "10.0.0.0/24", judgetest.Alloc("1", "default/web-1", "box-1", "net1"), judgetest.Alloc("3", "default/web-3", "box-3", "net1"),
				judgetest.Alloc("9", "default/gone", "box-gone", "net1"))), judge.Policy{})}) // of that nothing tells on which node it was
		for metric, want := range map[string]map[string]float64{"nodes": c.nodes, "candidates": {"": 0}} {
			if got := series(t, registry, metric); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", metric, got, want)
			}
		}
		if got := series(t, registry, "oldest_held_timestamp_seconds")["NodeUnreachable"]; got != c.held {
			t.Errorf("held by NodeUnreachable since %v, want %v", got, c.held)
		}
	}
}

// releases are how many were released within so many seconds, and in all.
func releases(t *testing.T, m *Metrics, proof string, within float64) (n, all uint64) {
	t.Helper()
	var out dto.Metric
	if err := m.releaseDelay.WithLabelValues(proof).(prometheus.Metric).Write(&out); err != nil {
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

// The objectives are those of docs/operate/metrics.md, by the default --confirm-after.
func TestWhatIsReleasedIsCountedByHowLongItWasStale(t *testing.T) {
	c := newCluster()
	serving(t, c, reconciler.Options{ConfirmAfter: 15 * time.Minute}, func(t *testing.T, s *Server) {
		m := s.Recorder.Metrics
		if _, all := releases(t, m, proven, 60); all != 0 {
			t.Errorf("%d releases before the first", all)
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(20 * time.Minute)
		if in, all := releases(t, m, unconfirmed, 1200); in != 1 || all != 1 {
			t.Errorf("%d of %d releases in time", in, all)
		}
		if in, _ := releases(t, m, unconfirmed, 900); in != 0 {
			t.Error("it was released before it was confirmed")
		}
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.fails["10.1.0.0-24"] = fmt.Errorf("it fails")
		s.Requests.CachePass()
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
