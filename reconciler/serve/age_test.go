package serve

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

func recorderOf(registry *prometheus.Registry) *Recorder {
	r := newRecorder(&strings.Builder{})
	r.Metrics = NewMetrics(registry)
	return r
}

// resultOf is the result of a pass that released nothing.
func resultOf(parts ...Part) *reconciler.Result {
	return &reconciler.Result{Assessment: Judged(Observe(parts...), facts.Policy{})}
}

func TestMetrics_OldestHeld(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := recorderOf(registry)
	const bad, finished = "no podref", "default/finished"
	pod := Pod("finished", Phase("Succeeded"), NoNetworkStatus)
	deleting := Pod("finished", NoNetworkStatus, DeletedAgo(-2*time.Hour))
	pool := func(podRefs ...string) Part {
		var allocs []Allocation
		for i, ref := range podRefs {
			allocs = append(allocs, Alloc(fmt.Sprint(i+1), ref, fmt.Sprint("box-", i), "net1"))
		}
		return Pool("10.0.0.0-24", "10.0.0.0/24", allocs...)
	}
	at := func(minute int) float64 { return float64(Now.Add(time.Duration(minute) * time.Minute).Unix()) }
	for _, c := range []struct {
		minute int
		parts  []Part
		want   map[string]float64
	}{
		{0, []Part{pool(bad)}, map[string]float64{"Malformed": at(0)}},
		{10, []Part{pool(bad, bad)}, map[string]float64{"Malformed": at(0)}},
		{20, []Part{pool("default/bystander", bad), pod}, map[string]float64{"Malformed": at(10)}},
		{30, []Part{pool(finished, bad), pod}, map[string]float64{"Malformed": at(10), "TerminalButRunning": at(30)}},
		{40, []Part{pool(finished), pod, Reservation("10.0.0.1", finished, LongAgo)},
			map[string]float64{"TerminalButRunning": at(30)}},
		{45, []Part{pool(finished), deleting}, map[string]float64{"Terminating": at(45)}},
		{50, []Part{pool(), Reservation("10.0.0.9", bad, LongAgo)}, map[string]float64{"Malformed": at(50)}},
		{60, []Part{pool()}, map[string]float64{}},
	} {
		now := At(Now.Add(time.Duration(c.minute) * time.Minute))
		r.record(resultOf(append([]Part{now, Pod("bystander", Carrying("10.0.0.1"))}, c.parts...)...))
		if got := series(t, registry, "oldest_held_timestamp_seconds"); !maps.Equal(got, c.want) {
			t.Errorf("minute %d: %v, want %v", c.minute, got, c.want)
		}
	}
}

// An unreachable node does not count as a failed agent: IPReconcileNoFreshReport reads a ratio of 0, and
// IPReconcileAddressHeld an age by NodeUnreachable. e2e/testdata/alerts tests these alerts.
func TestMetrics_Nodes(t *testing.T) {
	for _, c := range []struct {
		worker2        Part
		fresh, noFresh float64
		held           float64 // since when by NodeUnreachable
	}{{FreshReport("worker-2"), 2, 0, float64(Now.Unix())}, {Nothing, 1, 1, 0}} {
		registry := prometheus.NewRegistry()
		recorderOf(registry).record(resultOf(
			ReportingWorker(Sandbox("box-1", UsualUID, OfPod("web-1"))), Pod("web-1", Carrying("10.0.0.1")),
			Node("worker-2"), c.worker2, Node("worker-3", NotReadyFor(time.Hour)), StaleReport("worker-3"),
			Pod("web-3", OnNode("worker-3"), DeletedAgo(time.Hour)),
			Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("1", "default/web-1", "box-1", "net1"),
				Alloc("3", "default/web-3", "box-3", "net1"), Alloc("9", "default/gone", "box-gone", "net1"))))
		want := map[string]float64{"Fresh": c.fresh, "NoFreshReport": c.noFresh, "NotReady": 1, "Dead": 0}
		if got := series(t, registry, "nodes"); !maps.Equal(got, want) {
			t.Errorf("nodes %v, want %v", got, want)
		}
		restoretest.Equal(t, "candidates", series(t, registry, "candidates")[""], 0.0)
		held := series(t, registry, "oldest_held_timestamp_seconds")
		restoretest.Equal(t, "held by NodeUnreachable since", held["NodeUnreachable"], c.held)
	}
}

// releases returns the number of releases within some seconds, and of all.
func releases(t *testing.T, m *Metrics, proof string, within float64) (n, all uint64) {
	t.Helper()
	var out dto.Metric
	check(t, m.releaseDelay.WithLabelValues(proof).(prometheus.Metric).Write(&out))
	for _, b := range out.GetHistogram().GetBucket() {
		if b.GetUpperBound() == within {
			return b.GetCumulativeCount(), out.GetHistogram().GetSampleCount()
		}
	}
	t.Fatalf("no bucket of %v seconds, which an alert needs", within)
	return 0, 0
}

func TestMetrics_ReleaseDelay(t *testing.T) {
	c := newCluster()
	serving(t, c, plan.Options{ConfirmAfter: 15 * time.Minute}, func(t *testing.T, s *Server) {
		count := func(what, proof string, within float64, wantIn, wantAll uint64) {
			t.Helper()
			if in, all := releases(t, s.Recorder.Metrics, proof, within); in != wantIn || all != wantAll {
				t.Errorf("%s: %d of %d releases within %v s, want %d of %d", what, in, all, within, wantIn, wantAll)
			}
		}
		count("at first", proven, 60, 0, 0)
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.CachePass()
		c.sleep(20 * time.Minute)
		count("after confirmation", unconfirmed, 1200, 1, 1)
		count("after confirmation", unconfirmed, 900, 0, 1)
		c.has("10.1.0.0-24", "10.1.0.0/24")
		c.fails["10.1.0.0-24"] = errors.New("failed")
		s.Requests.CachePass()
		c.sleep(25 * time.Minute)
		c.mu.Lock()
		delete(c.fails, "10.1.0.0-24")
		c.mu.Unlock()
		c.sleep(time.Minute)
		count("after failed writes", unconfirmed, 1200, 1, 2)
		count("unproven", proven, 60, 0, 0)
		update(s.Recorder.Metrics, &reconciler.Result{Assessment: Judged(Observe(Pod("bystander")), facts.Policy{}),
			Delays: []reconciler.Delay{{Proven: true, After: time.Minute}, {Proven: true, After: 61 * time.Second}}})
		count("proven", proven, 60, 1, 2)
		count("proven", unconfirmed, 1200, 1, 2)
	})
}
