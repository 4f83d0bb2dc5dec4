package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// No report has the sandbox: the new machine may run it, and its agent is not heard.
func TestAMachineThatReplacedAnotherMayRunWhatNoReportHas(t *testing.T) {
	for says, pod := range map[string]part{
		"no pod":                           nothing,
		"a pod that ends there":            web(onNode("worker-2"), deletedAgo(-time.Minute), carrying("10.0.0.5")),
		"a pod of another name was there":  seenWhile(usualPool, aPod("web-1", onNode("worker-2"), carrying("10.0.0.5"))),
		"a pod that was seen there before": seenWhile(usualPool, web(onNode("worker-2"), carrying("10.0.0.5"))),
	} {
		t.Run(says, func(t *testing.T) { expectKept(t, usualPool, anotherMachine(), pod) })
	}
}

// As for allocations: the sandbox may be one of the new machine.
func TestAMachineThatReplacedAnotherMayRunWhatAReservationAloneIsFor(t *testing.T) {
	j := judged(observe(aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", time.Hour), anotherMachine()), judge.Policy{})
	if it := reservationIn(t, j, "10.0.0.5"); it.Verdict == judge.Stale {
		t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
	}
}

// The machine id can be recreated while all runs on; a boot id is of one boot of one
// machine only.
func TestANodeOfTheSameBootIsTheSameMachineWhateverItsIDsAre(t *testing.T) {
	expectKept(t, usualPool, aNode("worker-2"), freshReport("worker-2"),
		aNode("worker-1", onMachine(v1alpha1.Machine{SystemUUID: machineOf("worker-1").SystemUUID, MachineID: "recreated"})),
		staleReport("worker-1", box("box-1", its1), heardAt(now.Add(-time.Hour))))
}

// What a tenant's pod said of itself, on a node without an agent, must not hold for ever
// what the sandbox's own node says has ended.
func TestAPodThatClaimedTheAddressAndIsGoneDoesNotHoldWhatHasEnded(t *testing.T) {
	base := all(usualPool, aNode("worker-1"), aNode("win", label("kubernetes.io/os", "windows")), freshReport("worker-1", gone("box-1", its1)))
	it := allocation(t, judged(observe(base, seenWhile(base, aPod("tenant", uid("uid-9"), onNode("win"), carrying("10.0.0.5")))), judge.Policy{}), "10.0.0.5")
	if it.Verdict != judge.Stale {
		t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
	}
}

// The node is proven dead: that nothing else is known is no reason to hold what a pod
// there had for ever, while a process that has just started releases it.
func TestWithoutAgentsANodeThatIsProvenDeadHoldsNothingOfAPodThatWasSeenThere(t *testing.T) {
	dead := aNode("worker-4", notReadyFor(time.Hour), outOfService)
	expect(t, outcome{judge.Stale, judge.PodGone, false, judge.NoSource}, usualPool, three, dead)
	it := allocation(t, judged(observe(usualPool, three, dead, seenWhile(usualPool, web(onNode("worker-4"), carrying("10.0.0.5")))), judge.Policy{}), "10.0.0.5")
	if it.Verdict != judge.Stale {
		t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
	}
}
