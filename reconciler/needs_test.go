package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What is swept must be of no use to anybody: a claim that only a report of a
// node which is gone tells of keeps an address from being freed.
func TestAReportIsNeededWhileAnythingIsHeldBecauseOfIt(t *testing.T) {
	report := func(o *observed, node string) *podstate.Report {
		for _, r := range o.Reports {
			if r.Name == node {
				return r
			}
		}
		t.Fatalf("there is no report of %s", node)
		return nil
	}
	for says, c := range map[string]struct {
		parts []part
		want  bool
	}{
		"it has nothing":                    {[]part{goneBox, staleReport("worker-9")}, false},
		"it has the sandbox":                {[]part{usualPool, onWorker(), staleReport("worker-9", box("box-1", its1))}, true},
		"its sandbox carries the address":   {[]part{goneBox, staleReport("worker-9", box("box-9", "uid-9", holding("10.0.0.5", "")))}, true},
		"its sandbox carries another":       {[]part{goneBox, staleReport("worker-9", box("box-9", "uid-9", holding("10.0.0.6", "")))}, false},
		"its attachment has the address":    {[]part{goneBox, staleReport("worker-9", attachment("box-9", "uid-9", time.Minute, nil, address("10.0.0.5", "")))}, true},
		"its sandbox had it and has closed": {[]part{goneBox, staleReport("worker-9", box("box-9", "uid-9", holding("10.0.0.5", ""), notReady(&[]bool{true}[0])))}, false},
	} {
		o := observe(c.parts...)
		out := &Result{Judgement: judged(o, judge.Policy{})}
		if got := out.Needs(report(o, "worker-9")); got != c.want {
			t.Errorf("%s: needed %v, want %v", says, got, c.want)
		}
		out.Released = out.Allocations
		if out.Needs(report(o, "worker-9")) {
			t.Errorf("%s: needed by what was released", says)
		}
	}
}
