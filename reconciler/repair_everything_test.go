package reconciler

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A fence would else stand for what nobody will write.
func TestWhileEverythingIsPausedNothingIsToBeRepaired(t *testing.T) {
	for _, paused := range []bool{false, true} {
		o := Observe(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))), UsualPod(),
			func(o *Observed) { o.Paused = paused })
		plan := NewHistory().planRepairs(Judged(o, judge.Policy{}), Options{DryRun: true})
		if want := map[bool]int{false: 1}[paused]; plan.toRepair != want || len(plan.due) != want {
			t.Errorf("paused %v: %d are to be repaired, and %d now", paused, plan.toRepair, len(plan.due))
		}
	}
}
