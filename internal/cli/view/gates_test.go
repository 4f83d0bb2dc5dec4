package view

import (
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func TestGates_TimedGatesAreOne(t *testing.T) {
	at := func(d time.Duration) plan.Refused {
		return plan.Refused{Item: several().Allocations[0],
			Gate: plan.Gate{Why: plan.AwaitingConfirmation, Detail: d.String(), At: Now.Add(d)}}
	}
	paused := plan.Gate{Why: plan.Paused, Detail: "pool p is paused", Pool: "kube-system/p"}
	both := at(time.Hour)
	both.Gate, both.Also = paused, []plan.Gate{both.Gate}
	got := gatesOf([]plan.Gate{paused}, []plan.Refused{at(time.Minute), both, at(30 * time.Minute)})
	if len(got) != 2 || got[0].Refusal != plan.Paused || got[0].Count != 1 || got[1].Count != 3 ||
		!got[1].FirstReleasableAt.Equal(Now.Add(time.Minute)) || !got[1].LastReleasableAt.Equal(Now.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
	const want = "the verdicts are confirmed from 2026-11-20T10:01:00Z to 2026-11-20T11:00:00Z " +
		"unless something contradicts them"
	if got[1].Detail != want {
		t.Errorf("got %s", got[1].Detail)
	}
	if !both.At().IsZero() || !at(time.Minute).At().Equal(Now.Add(time.Minute)) {
		t.Error("what is paused is released when somebody ends that, and not by itself")
	}
}
