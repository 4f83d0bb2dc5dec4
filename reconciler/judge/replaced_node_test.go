package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// No report has the sandbox: the new machine may run it, and its agent is not heard.
func TestAMachineThatReplacedAnotherMayRunWhatNoReportHas(t *testing.T) {
	for says, pod := range map[string]Part{
		"no pod":                           Nothing,
		"a pod that ends there":            UsualPod(OnNode("worker-2"), DeletedAgo(-time.Minute), Carrying("10.0.0.5")),
		"a pod of another name was there":  afterPassOver(UsualPool, Pod("web-1", OnNode("worker-2"), Carrying("10.0.0.5"))),
		"a pod that was seen there before": afterPassOver(UsualPool, UsualPod(OnNode("worker-2"), Carrying("10.0.0.5"))),
	} {
		t.Run(says, func(t *testing.T) { expectKept(t, UsualPool, ReplacedMachine(), pod) })
	}
}

// As for allocations: the sandbox may be one of the new machine.
func TestAMachineThatReplacedAnotherMayRunWhatAReservationAloneIsFor(t *testing.T) {
	j := Judged(Observe(Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", time.Hour), ReplacedMachine()), judge.Policy{})
	if it := ReservationOf(t, j, "10.0.0.5"); it.Verdict == judge.Stale {
		t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
	}
}

// The machine id can be recreated while all runs on; a boot id is of one boot of one
// machine only.
func TestANodeOfTheSameBootIsTheSameMachineWhateverItsIDsAre(t *testing.T) {
	expectKept(t, UsualPool, Node("worker-2"), FreshReport("worker-2"),
		Node("worker-1", OnMachine(v1alpha1.Machine{SystemUUID: MachineOf("worker-1").SystemUUID, MachineID: "recreated"})),
		StaleReport("worker-1", Sandbox("box-1", UsualUID), RenewedAt(Now.Add(-time.Hour))))
}

// What a tenant's pod said of itself, on a node without an agent, must not hold for ever
// what the sandbox's own node says has ended.
func TestAPodThatClaimedTheAddressAndIsGoneDoesNotHoldWhatHasEnded(t *testing.T) {
	base := All(UsualPool, Node("worker-1"), Node("win", Label("kubernetes.io/os", "windows")), FreshReport("worker-1", Gone("box-1", UsualUID)))
	it := AllocationOf(t, Judged(Observe(base, afterPassOver(base, Pod("tenant", UID("uid-9"), OnNode("win"), Carrying("10.0.0.5")))), judge.Policy{}), "10.0.0.5")
	if it.Verdict != judge.Stale {
		t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
	}
}

// The node is proven dead: that nothing else is known is no reason to hold what a pod
// there had for ever, while a process that has just started releases it.
func TestWithoutAgentsADeadNodeHoldsNothingOfAPodThatWasSeenThere(t *testing.T) {
	dead := Node("worker-4", NotReadyFor(time.Hour), OutOfService)
	Expect(t, Want(judge.Stale, judge.PodGone, false, judge.NoSource), UsualPool, threeNodes, dead)
	it := AllocationOf(t, Judged(Observe(UsualPool, threeNodes, dead, afterPassOver(UsualPool, UsualPod(OnNode("worker-4"), Carrying("10.0.0.5")))), judge.Policy{}), "10.0.0.5")
	if it.Verdict != judge.Stale {
		t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
	}
}
