package reconciler

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// In a fleet a node is always down. Items that may run there are Held, and do not count as candidates.
func TestHistory_OldestStale(t *testing.T) {
	p := newProcess(t, quarter)
	down := []Part{UsualPool, ReportingWorker(), Node("worker-2", NotReadyFor(time.Minute)), ReportRenewed("worker-2",
		time.Hour)}
	for hour := range 4 {
		p.pass(time.Duration(hour)*time.Hour, down...)
		it := AllocationOf(t, Judged(p.next, facts.Policy{}), "10.0.0.5")
		if it.Verdict != judge.Held || !it.IsUndetermined() {
			t.Fatalf("hour %d: %v", hour, RulingOf(it))
		}
		if !p.Process.Known.OldestStale().IsZero() {
			t.Errorf("hour %d: a candidate since %s", hour, p.Process.Known.OldestStale())
		}
	}
	back := []Part{UsualPool, ReportingWorker(), Node("worker-2"), FreshReport("worker-2")}
	for range 2 {
		p.pass(4*time.Hour, back...)
		if at := Now.Add(4 * time.Hour); !p.Process.Known.OldestStale().Equal(at) {
			t.Errorf("after the node returned the oldest candidate is of %s, want %s", p.Process.Known.OldestStale(), at)
		}
	}
	p.pass(5*time.Hour, Node("worker-1"))
	if !p.Process.Known.OldestStale().IsZero() {
		t.Errorf("without items the oldest candidate is of %s", p.Process.Known.OldestStale())
	}
}

// The time as unconfirmed does not count as proven, and a contradiction starts the count again.
func TestHistory_Delay(t *testing.T) {
	p := newProcess(t, quarter)
	delay := func(after time.Duration, parts ...Part) (d Delay, ok bool) {
		p.pass(after, parts...)
		it := AllocationOf(t, Judged(p.next, facts.Policy{}), "10.0.0.5")
		d.Proven = it.Proven
		d.After, ok = p.Process.Known.StandsFor(it, p.Clock.Now().Add(3*time.Second))
		return d, ok
	}
	const minute = time.Minute
	absent := []Part{UsualPool, ReportingWorker()}
	gone := []Part{UsualPool, ReportingWorker(Gone("box-1", UsualUID))}
	runs := []Part{UsualPool, ReportingWorker(Sandbox("box-1", UsualUID))}
	for _, c := range []struct {
		says  string
		after time.Duration
		parts []Part
		want  Delay
		ok    bool
	}{
		{"absent", 0, absent, Delay{false, 3 * time.Second}, true},
		{"absent for ten minutes", 10 * minute, absent, Delay{false, 10*minute + 3*time.Second}, true},
		{"proven since", 11 * minute, gone, Delay{true, 3 * time.Second}, true},
		{"proven for a minute", 12 * minute, gone, Delay{true, minute + 3*time.Second}, true},
		{"not proven any more", 13 * minute, absent, Delay{false, 13*minute + 3*time.Second}, true},
		{"proven again", 14 * minute, gone, Delay{true, 3 * time.Second}, true},
		{"it runs", 15 * minute, runs, Delay{}, false},
		{"absent again", 16 * minute, absent, Delay{false, 3 * time.Second}, true},
	} {
		if d, ok := delay(c.after, c.parts...); ok != c.ok || ok && d != c.want {
			t.Errorf("%s: %v, known: %v; want %v", c.says, d, ok, c.want)
		}
	}
}

// The page of serve reads the result of a pass while the next ones run. With a memory that changes, that would end the
// process: "concurrent map read and map write".
func TestKnown_IsReadBesideLaterPasses(t *testing.T) {
	p := newProcess(t, quarter)
	dead := Node("worker-2", NotReadyFor(time.Minute), OutOfService)
	parts := []Part{UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), dead, FreshReport("worker-1",
		Sandbox("box-1", UsualUID))}
	p.pass(0, append(parts, revision(100))...)
	p.pass(time.Second, append(parts, revision(90))...) // a restore
	a, err := p.Check(t.Context())
	check(t, err)
	done, known := make(chan int), p.Process.Known
	go func() {
		n := 0
		for range 1000 {
			for _, it := range a.Allocations {
				it.Age(Now)
				again := judge.JudgeAt(a.Facts(), known, nil, []netip.Addr{it.Address()})
				n += len(a.Notes()) * len(again.Allocations[0].Evidence().Nodes)
			}
		}
		done <- n
	}()
	for i := range 1000 {
		p.pass(time.Duration(i)*time.Second, append(parts, revision(uint64(100+i%2)))...)
		p.pass(time.Duration(i)*time.Second, UsualPool)
	}
	if n := <-done; n < 1000 {
		t.Errorf("%d notes and nodes", n)
	}
}

// The API server of the next pass may have another clock.
func TestPlan_NodeMissingOwnClock(t *testing.T) {
	for says, c := range map[string]Part{
		"of which there is a report": All(UsualPool, Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1",
			Sandbox("box-1", UsualUID), RenewedAt(Now.Add(-time.Hour)))),
		"without a report": All(UsualPool, Node("worker-2"), UsualPod(DeletedAgo(0))),
	} {
		t.Run("a node "+says+", missing for ten seconds", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(0, c)
			p.skew = 10*time.Second - time.Hour // this machine's clock went on by as much
			p.WantRefused("the API server's clock went on by an hour", plan.AwaitingConfirmation, p.pass(time.Hour, c))
		})
		t.Run("a node "+says+", missing for an hour", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(0, c)
			p.releases("both clocks went on by an hour", time.Hour, c)
		})
	}
	t.Run("a node without a report, for less than --confirm-after", func(t *testing.T) {
		c := All(UsualPool, Node("worker-2"), UsualPod(DeletedAgo(0)))
		p := newProcess(t, quarter)
		p.pass(0, c)
		p.skew = 14*time.Minute - time.Hour
		p.WantRefused("the API server's clock went on by an hour", plan.AwaitingConfirmation, p.pass(time.Hour, c))
	})
}

// From the first pass to the plan.
func TestPlan_ReplacedMachine(t *testing.T) {
	p := newProcess(t, quarter)
	parts := []Part{UsualPool, UsualPod(OnNode("worker-2"), DeletedAgo(-2*time.Hour), Carrying("10.0.0.5")),
		ReplacedMachine()}
	p.pass(0, parts...)
	if made := p.pass(time.Hour, parts...); len(made.Release) > 0 {
		t.Errorf("released: %s", made.Release[0].Message())
	}
}

// The Node object of the pod's node must be missing for 40 s, whatever --confirm-after says.
func TestPlan_ReportOnPodOfMissingNode(t *testing.T) {
	p := newProcess(t, plan.Options{})
	parts := []Part{UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", OtherUID)),
		UsualPod(OnNode("worker-2"), DeletedAgo(0))}
	if made := p.pass(0, parts...); len(made.Release) > 0 {
		t.Errorf("released at the first pass that misses the node: %s", made.Release[0].Message())
	}
}

// The leak precedes the agents: no report has its id, so that every node must report. An autoscaler adds a node every
// ten minutes, and its agent first reports 30 s later.
func TestLiveness_NodesThatJoin(t *testing.T) {
	p := newProcess(t, quarter)
	base := All(UsualPool, ReportingWorker())
	released := func(at time.Duration, parts ...Part) bool {
		made := p.pass(at, append(parts, base)...)
		return len(made.Release) > 0
	}
	for at := time.Duration(0); at <= 20*minute; at += 10 * minute {
		spot := fmt.Sprint("spot-", int(at/minute))
		if released(at, Node(spot)) { // a watch wakes the reconciler
			t.Fatalf("released %s after the start, while a node was unknown", at)
		}
		if released(at+30*time.Second, Node(spot), FreshReport(spot)) {
			t.Logf("released after %s", at)
			return
		}
		if released(at+9*minute+59*time.Second, Node(spot), FreshReport(spot)) {
			t.Logf("released after %s", at)
			return
		}
	}
	t.Error("within half an hour it was not released, although each node's first report lacked it")
}

// The same with nodes that leave: the machine ends, and its Node object exists for another minute.
func TestLiveness_NodesThatLeave(t *testing.T) {
	p := newProcess(t, quarter)
	base := All(UsualPool, ReportingWorker())
	for at := time.Duration(0); at <= 20*minute; at += 10 * minute {
		for _, made := range []*plan.Plan{
			p.pass(at, base, Node("spot", NotReadyFor(minute)), ReportRenewed("spot", 70*time.Second)),
			p.pass(at+minute, base, ReportRenewed("spot", 130*time.Second)), // the Node object is gone
			p.pass(at+9*minute, base),
		} {
			if len(made.Release) > 0 {
				t.Logf("released after %s", at)
				return
			}
		}
	}
	t.Error("within half an hour it was not released")
}
