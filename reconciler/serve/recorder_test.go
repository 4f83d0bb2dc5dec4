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
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func newRecorder(log *strings.Builder) *Recorder {
	return &Recorder{
		Log:     slog.New(slog.NewTextHandler(log, nil)),
		Metrics: NewMetrics(prometheus.NewRegistry()), Events: &Events{EventRecorder: &record.FakeRecorder{}},
	}
}

// passOver makes a pass over pools, by a process that confirms nothing.
func passOver(t *testing.T, history *reconciler.History, pools ...*ippool.Pool) *reconciler.Result {
	t.Helper()
	c := newCluster()
	for _, p := range pools {
		c.pools[p.Name] = p
	}
	r := &reconciler.Reconciler{Source: view{c, true}, Writer: c, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler), History: history, Options: reconciler.Options{ConfirmAfter: time.Hour, PodsComplete: true}}
	out, _, err := r.Pass(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsToldIsToldOnceAndForgottenWithItsSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		recorder, history := newRecorder(&log), reconciler.NewHistory()
		var pools []*ippool.Pool
		for n := range 100 { // each has one entry that is stale, and one that is held and found
			pools = append(pools, aPool(fmt.Sprintf("10.0.%d.0-24", n), fmt.Sprintf("10.0.%d.0/24", n), "default/gone", "no podref"))
		}
		recorder.record(passOver(t, history, pools...))
		said := log.Len()
		for range 3 {
			time.Sleep(observeEvery)
			recorder.record(passOver(t, history, pools...))
		}
		if log.Len() != said {
			t.Fatalf("said again: %s", log.String()[said:])
		}
		if n := strings.Count(log.String(), "msg=Held"); n != 100 {
			t.Errorf("%d entries were told of as held", n)
		}
		time.Sleep(forgetAfter + time.Second)
		recorder.record(passOver(t, history))
		if n := len(recorder.held) + len(recorder.facts); n > 1 { // but for a note
			t.Errorf("%d things are remembered of nothing, %v", n, recorder.facts)
		}
	})
}

func TestThatFullPassesStandInForTheCachesIsToldOnce(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	for passes := range 10 {
		recorder.cachePassEnded(informers.ErrCacheUnverified, passes)
		if passes == 1 && log.Len() > 0 {
			t.Errorf("told of a watch that was closed for a moment: %s", log.String())
		}
	}
	recorder.cachePassEnded(nil, 0)
	recorder.cachePassEnded(nil, 0)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "again") {
		t.Errorf("said: %s", log.String())
	}
}

// What is read in parallel fails now for one reason and now for another.
func TestAFailureOfPassesIsToldOnce(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	for _, text := range []string{"pods", "nodes", "pods", "nodes", "pods"} {
		recorder.fullPassEnded(nil, time.Second, errors.New(text), "")
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("two errors in turn are told %d times: %s", n, log.String())
	}
}

// In a large cluster one node after the other writes its report.
func TestForWhomARestoreWaitsIsToldAsAnErrorOnceAMinute(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	out := passOver(t, reconciler.NewHistory())
	passAt := func(after time.Duration, awaited ...string) (said int) {
		before := strings.Count(log.String(), "level=ERROR")
		out.Observation.Now = out.Observation.Now.Add(after)
		out.Restore = &judge.RestoreState{Restored: noon, Why: "resourceVersion 90 after 100", Awaiting: awaited}
		recorder.record(out)
		if got := gaugeOf(t, recorder.Metrics, "restore_pending_nodes"); got != float64(len(awaited)) {
			t.Errorf("%v nodes in the metric, want %d", got, len(awaited))
		}
		return strings.Count(log.String(), "level=ERROR") - before
	}
	for _, c := range []struct {
		says    string
		after   time.Duration
		awaited []string
		said    int
	}{
		{"at first", 0, []string{"worker-1", "worker-2", "worker-3"}, 1},
		{"the same again", time.Hour, []string{"worker-1", "worker-2", "worker-3"}, 0},
		{"one less", time.Second, []string{"worker-2", "worker-3"}, 1},
		{"one less a second later", time.Second, []string{"worker-3"}, 0},
		{"and a minute later", time.Minute, []string{"worker-3"}, 1},
		{"nobody", time.Second, nil, 0},
		{"the next restore", time.Second, []string{"worker-1"}, 1},
	} {
		if said := passAt(c.after, c.awaited...); said != c.said {
			t.Errorf("%s: said %d times, want %d", c.says, said, c.said)
		}
	}
	for _, want := range []string{"[worker-1 worker-2 worker-3]", "resourceVersion 90 after 100", "All nodes have reported"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "worker-2"); n != 2 {
		t.Errorf("worker-2 is named %d times: %s", n, log.String())
	}
}

func TestWhatTheBreakerForRepairWithholdsIsLoggedOnceAndCountedEach(t *testing.T) {
	var log strings.Builder
	recorder := newRecorder(&log)
	out := passOver(t, reconciler.NewHistory())
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		f := judge.Finding{Kind: judge.Unrecorded, IP: ip, Pool: "kube-system/p"}
		out.Unrepaired = append(out.Unrepaired, reconciler.Unrepaired{Finding: f, Why: reconciler.Breaker, Detail: "worker-1 says too much"})
	}
	count := func() float64 {
		return valueOf(t, recorder.Metrics.unrepaired.WithLabelValues(string(reconciler.Breaker)))
	}
	for range 3 {
		recorder.record(out)
	}
	if n := strings.Count(log.String(), "Refused a mass repair"); n != 1 || !strings.Contains(log.String(), "findings=3") || count() != 3 {
		t.Errorf("counted %v, told %d times: %s", count(), n, log.String())
	}
}
