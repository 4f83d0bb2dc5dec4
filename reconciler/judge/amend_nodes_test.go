package judge_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// What was judged before the change must not be of the past later, though no report has
// become fresh or stale.
func TestAnAmendedIndexJudgesNodesByTheReportsThatThereAreNow(t *testing.T) {
	newMachine := v1alpha1.Machine{SystemUUID: "board of the new one", MachineID: "disk of the new one"}
	for _, c := range []struct {
		says        string
		cluster     Part
		report, now Part
	}{
		{"the agent of another machine has written, and its Lease does not have the hash yet",
			All(UsualPool, Node("worker-1"), FreshReport("worker-1"), Node("worker-2", Booted("boot-2"), OnMachine(newMachine))),
			StaleReport("worker-2"), StaleReport("worker-2", FromBoot("boot-2"), FromMachine(newMachine))},
		{"the agent of a missing node is heard again, and its Lease does not have the hash of its report",
			All(Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", time.Hour), Node("worker-1"), FreshReport("worker-1"),
				afterPassOver(Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", 0), Node("worker-2"), UsualPod(OnNode("worker-2")))),
			StaleReport("worker-2", RenewedAt(Now.Add(-time.Hour)), WithoutMatchingLease), StaleReport("worker-2", RenewedAt(Now.Add(-time.Second)), WithoutMatchingLease)},
	} {
		t.Run(c.says, func(t *testing.T) {
			o := Observe(c.cluster, c.report)
			x := judge.NewIndex(o.Observation, o.Past, judge.Policy{})
			x.Judge()
			after := Observe(c.now).Reports[0]
			x = x.With(&judge.Live{Reports: map[string]*podstate.Report{"worker-2": after}})
			built := Judged(Observe(c.cluster, c.now), judge.Policy{})
			if got, want := Describe(x.Judge()), Describe(built); !slices.Equal(got, want) {
				t.Errorf("amended %v\nbuilt   %v", got, want)
			}
		})
	}
}
