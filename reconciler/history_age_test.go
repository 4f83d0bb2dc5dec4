package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// In a fleet a node is always down. What may run there is held, and that no candidate is
// left says that everything that is stale is released.
func TestWhatIsHeldForANodeThatIsDownIsNoOldCandidate(t *testing.T) {
	p := newProcess(t, quarter)
	down := []Part{UsualPool, ReportingWorker(), Node("worker-2", NotReadyFor(time.Minute)), ReportRenewed("worker-2", time.Hour)}
	for hour := range 4 {
		p.pass(time.Duration(hour)*time.Hour, down...)
		it := AllocationOf(t, Judged(p.next, judge.Policy{}), "10.0.0.5")
		if it.Verdict != judge.Held || !it.NotKnown() {
			t.Fatalf("hour %d: %v", hour, OutcomeOf(it))
		}
		if !p.History.oldest.IsZero() {
			t.Errorf("hour %d: a candidate since %s", hour, p.History.oldest)
		}
	}
	back := []Part{UsualPool, ReportingWorker(), Node("worker-2"), FreshReport("worker-2")}
	for range 2 {
		p.pass(4*time.Hour, back...)
		if at := Now.Add(4 * time.Hour); !p.History.oldest.Equal(at) {
			t.Errorf("the node is back, and the oldest candidate is of %s, want %s", p.History.oldest, at)
		}
	}
	p.pass(5*time.Hour, Node("worker-1"))
	if !p.History.oldest.IsZero() {
		t.Errorf("nothing is left, and the oldest candidate is of %s", p.History.oldest)
	}
}

// What waited for proof was not proven meanwhile, and what is contradicted begins again.
func TestForHowLongSomethingIsProvenOrStale(t *testing.T) {
	p := newProcess(t, quarter)
	delay := func(after time.Duration, parts ...Part) (d Delay, ok bool) {
		p.pass(after, parts...)
		it := AllocationOf(t, Judged(p.next, judge.Policy{}), "10.0.0.5")
		return p.History.delayOf(it, p.Clock.Now().Add(3*time.Second))
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
