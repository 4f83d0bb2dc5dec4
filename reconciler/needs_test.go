package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A report of a missing node may hold an address that its sandbox carries: such a report must not be deleted.
func TestResult_Needs(t *testing.T) {
	report := func(o *Observed, node string) *podstate.Report {
		for _, r := range o.Reports {
			if r.Name == node {
				return r
			}
		}
		t.Fatalf("there is no report of %s", node)
		return nil
	}
	for says, c := range map[string]struct {
		parts []Part
		want  bool
	}{
		"it has nothing": {[]Part{UsualSandboxGone, StaleReport("worker-9")}, false},
		"it has the sandbox": {[]Part{UsualPool, ReportingWorker(), StaleReport("worker-9",
			Sandbox("box-1", UsualUID))}, true},
		"its sandbox carries the address": {[]Part{UsualSandboxGone, StaleReport("worker-9", Sandbox("box-9", "uid-9",
			WithAddress("10.0.0.5", "")))}, true},
		"its sandbox carries another": {[]Part{UsualSandboxGone, StaleReport("worker-9", Sandbox("box-9", "uid-9",
			WithAddress("10.0.0.6", "")))}, false},
		"its attachment has the address": {[]Part{UsualSandboxGone, StaleReport("worker-9", Attachment("box-9", "uid-9",
			time.Minute, nil, Address("10.0.0.5", "")))}, true},
		"its sandbox had it and has closed": {[]Part{UsualSandboxGone, StaleReport("worker-9", Sandbox("box-9", "uid-9",
			WithAddress("10.0.0.5", ""), NotReady(&[]bool{true}[0])))}, false},
	} {
		o := Observe(c.parts...)
		out := &Result{Judgement: Judged(o, judge.Policy{})}
		if got := out.Needs(report(o, "worker-9")); got != c.want {
			t.Errorf("%s: needed %v, want %v", says, got, c.want)
		}
		out.Released = out.Allocations
		if out.Needs(report(o, "worker-9")) {
			t.Errorf("%s: needed by what was released", says)
		}
	}
}
