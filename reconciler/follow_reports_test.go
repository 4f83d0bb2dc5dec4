package reconciler

import (
	"runtime"
	"testing"
	"time"
	"weak"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Reports that were there and are not any more are no proof that there are no agents,
// whoever saw them.
func TestReportsThatWereFollowedAreNotForgotten(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-1", "box-1", "net1"))
	with := Observe(pool, Node("worker-1"), Node("worker-2"), FreshReport("worker-1"))
	report := with.Reports[0]

	p := newProcess(t, Options{DryRun: true})
	p.pass(0, pool, Node("worker-1"), Node("worker-2"))
	p.pass(time.Second, pool, Node("worker-1"), Node("worker-2"), FreshReport("worker-1"))
	p.pass(2*time.Second, pool, Node("worker-1"), Node("worker-2"))
	p.next = Observe(pool, Node("worker-1"), Node("worker-2"))
	j, _ := p.Check(t.Context())
	if v := j.Allocations[0]; v.Verdict != judge.Held || j.WithoutAgents {
		t.Fatalf("a full pass: %s %s", v.Verdict, v.Reason)
	}

	p = newProcess(t, Options{DryRun: true})
	p.next = Observe(pool, Node("worker-1"), Node("worker-2"))
	p.Clock.(*clocktesting.FakeClock).SetTime(p.next.Now)
	last, err := p.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*podstate.Report{report, nil} {
		p.Follow(t.Context(), last, &judge.Live{Now: p.next.Now.Add(time.Second), Reports: map[string]*podstate.Report{"worker-1": r}}, nil)
	}
	p.next = Observe(pool, Node("worker-1"), Node("worker-2"), At(Now.Add(2*time.Second)))
	j, _ = p.Check(t.Context())
	if v := j.Allocations[0]; v.Verdict != judge.Held || j.WithoutAgents {
		t.Errorf("after what was followed: %s %s, without agents %v", v.Verdict, v.Reason, j.WithoutAgents)
	}
}

// A report that is replaced is not kept.
func TestReportsThatWereReplacedAreNotKept(t *testing.T) {
	o := Observe(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-1", "box-1", "net1")), ReportingWorker(Sandbox("box-1", "uid-1")))
	last := Judged(o, judge.Policy{})
	var old []weak.Pointer[v1alpha1.SandboxReport]
	for i := range 100 {
		next := Observe(ReportingWorker(Sandbox("box-1", "uid-1"))).Reports[0]
		last.Follow(&judge.Live{Now: o.Now.Add(time.Duration(i) * time.Millisecond), Reports: map[string]*podstate.Report{"worker-1": next}})
		old = append(old, weak.Make(next.SandboxReport))
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, p := range old[:len(old)-1] {
		if p.Value() != nil {
			kept++
		}
	}
	if kept > 1 {
		t.Errorf("%d of %d replaced reports are kept", kept, len(old)-1)
	}
	runtime.KeepAlive(last)
}
