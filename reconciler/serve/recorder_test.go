package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

func newRecorder(log *strings.Builder) *Recorder {
	return &Recorder{
		Log:     slog.New(slog.NewTextHandler(log, nil)),
		Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}},
	}
}

// passOver makes a pass over pools that confirms nothing.
func passOver(t *testing.T, process *reconciler.Process, pools ...*ippool.Pool) *reconciler.Result {
	t.Helper()
	c := newCluster()
	for _, p := range pools {
		c.pools[p.Name] = p
	}
	r := &reconciler.Reconciler{Source: view{c, true}, Leases: c, Clock: clock.RealClock{},
		Log: slog.New(slog.DiscardHandler), Process: process,
		Options: plan.Options{ConfirmAfter: time.Hour}, PodsComplete: true}
	out, _, err := r.Pass(context.Background(), nil)
	check(t, err)
	return out
}

func TestRecorder_LogsEachFactOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		recorder, process := newRecorder(&log), &reconciler.Process{}
		var pools []*ippool.Pool
		for n := range 100 { // each has a Stale and a Held allocation, and a finding
			cidr := fmt.Sprintf("10.0.%d.0/24", n)
			pools = append(pools, aPool(strings.ReplaceAll(cidr, "/", "-"), cidr, "default/gone", "no podref"))
		}
		recorder.record(passOver(t, process, pools...))
		size := log.Len()
		for range 3 {
			time.Sleep(observeEvery)
			recorder.record(passOver(t, process, pools...))
		}
		if log.Len() != size {
			t.Fatalf("logged again: %s", log.String()[size:])
		}
		restoretest.Equal(t, "allocations logged as Held", strings.Count(log.String(), "msg=Held"), 100)
		time.Sleep(forgetAfter + time.Second)
		recorder.record(passOver(t, process))
		if n := len(recorder.held) + len(recorder.facts); n > 1 { // a note
			t.Errorf("remembers %d facts of nothing: %v", n, recorder.facts)
		}
	})
}

func TestRecorder_WarnsOnceOfUnverifiedCaches(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	for passes := range 10 {
		recorder.cachePassEnded(informers.ErrCacheUnverified, passes)
		if passes == 1 && log.Len() > 0 {
			t.Errorf("logged a watch that was closed for a moment: %s", log.String())
		}
	}
	recorder.cachePassEnded(nil, 0)
	recorder.cachePassEnded(nil, 0)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "again") {
		t.Errorf("logged: %s", log.String())
	}
}

// Parallel reads fail with changing errors.
func TestRecorder_LogsEachErrorOnce(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	for _, text := range []string{"pods", "nodes", "pods", "nodes", "pods"} {
		recorder.fullPassEnded(nil, time.Second, errors.New(text), "")
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("two errors in turn are logged %d times: %s", n, log.String())
	}
}

// In a large cluster the nodes report one after the other.
func TestRecorder_LogsPendingNodesOnceAMinute(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	out := passOver(t, &reconciler.Process{})
	passAt := func(after time.Duration, awaited ...string) (lines int) {
		before := strings.Count(log.String(), "level=ERROR")
		out.Observation.Now = out.Observation.Now.Add(after)
		out.Restore = &restore.Status{ID: "k3f7q2m9xa", Restored: noon, Why: "resourceVersion 90 after 100",
			Awaiting: awaited}
		recorder.record(out)
		restoretest.Equal(t, "nodes in the metric", gaugeOf(t, recorder.Metrics, "restore_pending_nodes"), len(awaited))
		return strings.Count(log.String(), "level=ERROR") - before
	}
	for _, c := range []struct {
		what    string
		after   time.Duration
		awaited []string
		lines   int
	}{
		{"first pass", 0, []string{"worker-1", "worker-2", "worker-3"}, 1},
		{"same nodes", time.Hour, []string{"worker-1", "worker-2", "worker-3"}, 0},
		{"fewer nodes", time.Second, []string{"worker-2", "worker-3"}, 1},
		{"fewer, a second later", time.Second, []string{"worker-3"}, 0},
		{"a minute later", time.Minute, []string{"worker-3"}, 1},
		{"no node", time.Second, nil, 0},
		{"next restore", time.Second, []string{"worker-1"}, 1},
	} {
		restoretest.Equal(t, c.what+": lines", passAt(c.after, c.awaited...), c.lines)
	}
	for _, want := range []string{"[worker-1 worker-2 worker-3]", "90 after 100", "All nodes have reported"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("lacks %q: %s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "worker-2"); n != 2 {
		t.Errorf("worker-2 is named %d times: %s", n, log.String())
	}
}

func TestRecorder_MassRepair(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	out := passOver(t, &reconciler.Process{})
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		f := findings.Finding{Kind: findings.Unrecorded, IP: ip, Pool: "kube-system/p"}
		u := plan.Unrepaired{Finding: f, Why: plan.Breaker, Detail: "too many of worker-1"}
		out.Unrepaired = append(out.Unrepaired, u)
	}
	count := func() float64 {
		return valueOf(t, recorder.Metrics.unrepaired.WithLabelValues(string(plan.Breaker)))
	}
	for range 3 {
		recorder.record(out)
	}
	if n := strings.Count(log.String(), `"Refused a mass repair" findings=3`); n != 1 || count() != 3 {
		t.Errorf("counted %v, logged %d times: %s", count(), n, log.String())
	}
}
