package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// recorded decodes the record of the last pass.
func recorded(t *testing.T, s *memoryStore) *PassRecord {
	t.Helper()
	p, err := ReadPass(s.text)
	if err != nil || p == nil {
		t.Fatalf("kept is %q: %v", s.text, err)
	}
	return p
}

func observedAt(at time.Duration) *Result {
	j := &judge.Judgement{Observation: &facts.Observation{Now: Now.Add(at)}}
	return &Result{Assessment: &findings.Assessment{Judgement: j}}
}

func TestRecordPass(t *testing.T) {
	p, s := newProcess(t, quarter), &memoryStore{}
	p.PassStore = s
	out := observedAt(0)
	out.Released = make([]*judge.Item, 2)
	out.Refused = []plan.Refused{refusedBecause(nil, plan.Paused, ""), refusedBecause(nil, plan.Paused, ""),
		refusedBecause(nil, plan.Breaker, "")}
	p.RecordPass(t.Context(), out, 1500*time.Millisecond, nil)
	const want = `{"at":"2026-11-20T10:00:00Z","result":"Succeeded","took":"1.5s","succeeded":"2026-11-20T10:00:00Z",` +
		`"released":2,"refused":{"Breaker":1,"Paused":2}}`
	if s.text != want {
		t.Errorf("kept is\n%s, want\n%s", s.text, want)
	}
}

func TestRecordPass_Failure(t *testing.T) {
	p, s := newProcess(t, quarter), &memoryStore{}
	p.PassStore, p.Schedule = s, func() string { return "@every 5m" }
	p.RecordPass(t.Context(), observedAt(0), time.Second, nil)
	clock := p.Clock.(*clocktesting.FakeClock)
	clock.Step(time.Second)
	p.RecordPass(t.Context(), nil, time.Second, errors.New("list IPPools: "+strings.Repeat("no ", 1000)))
	got := recorded(t, s)
	if got.Result != PassFailed || !got.At.Equal(Now.Add(time.Second)) || !got.Succeeded.Equal(Now) ||
		!strings.HasPrefix(got.Message, "list IPPools") || len(got.Message) > longestMessage {
		t.Errorf("kept is %s", s.text)
	}
	clock.Step(time.Second)
	p.RecordPass(t.Context(), observedAt(2*time.Second), time.Second, nil)
	if got = recorded(t, s); got.Result != PassSucceeded || got.Message != "" || got.Schedule != "@every 5m" {
		t.Errorf("after a success the record is %s", s.text)
	}
}

func TestRecordPass_DryRunOrCancelled(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		opts plan.Options
		ctx  context.Context
	}{"a dry run": {plan.Options{DryRun: true}, t.Context()}, "a cancelled pass": {quarter, ended}} {
		p, s := newProcess(t, c.opts), &memoryStore{}
		p.PassStore = s
		p.RecordPass(c.ctx, observedAt(0), time.Second, nil)
		if s.text != "" {
			t.Errorf("%s: %s", name, s.text)
		}
	}
}

func TestRecordPass_StoreFails(t *testing.T) {
	for name, store := range map[string]*memoryStore{"it is kept": {}, "it is forbidden": {err: apply.ErrForbidden},
		"somebody wrote something else": {text: "?"}} {
		p := newProcess(t, plan.Options{})
		p.PassStore, p.next = store, Observe(UsualPool, UsualPod(Carrying("10.0.0.5")))
		if _, err := p.Run(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if store.err == nil && !json.Valid([]byte(store.text)) {
			t.Errorf("%s: kept is %q", name, store.text)
		}
	}
}

// A report of a missing node may hold an address that its sandbox carries: such a report must not be deleted.
func TestResult_Needs(t *testing.T) {
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
			WithAddress("10.0.0.5", ""), NotReady(Closed)))}, false},
	} {
		o := Observe(c.parts...)
		out := &Result{Assessment: Judged(o, facts.Policy{})}
		if got := out.Needs(ReportOf(o, "worker-9")); got != c.want {
			t.Errorf("%s: needed %v, want %v", says, got, c.want)
		}
		out.Released = out.Allocations
		if out.Needs(ReportOf(o, "worker-9")) {
			t.Errorf("%s: needed by what was released", says)
		}
	}
}
