package judge_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A definition of a tenant maps to the whole of a pool that another definition makes the slice of a node. The node must
// report all the same.
func TestATenantsDefinitionDoesNotExcuseTheNodeOfASlice(t *testing.T) {
	slice := All(Sliced(""), Pool("worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation),
		Node("worker-1", WithoutAgent), Node("worker-2"), FreshReport("worker-2"))
	held := Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport)
	Expect(t, held, slice)
	Expect(t, held, slice, NAD("mine", WhereaboutsConfig("10.0.0.0/28", "worker-1")))
}

func TestATenantsDefinitionDoesNotMakeAnotherAgentsWordProof(t *testing.T) {
	it := usualIn(t, Sliced(""), Pool("worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), Node("worker-1"),
		Node("worker-2"), FreshReport("worker-2", gone1), NAD("mine", WhereaboutsConfig("10.0.0.0/28", "worker-1")))
	if it.Verdict == judge.Stale {
		t.Error(Wrong(it, "held"))
	}
}
