package reconciler

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// worker-2 was booted between backup and restore, and told the restored cluster what it runs. It
// was cut off before kubelet had written its boot again: the Node tells of the one before.
func TestABootThatARestoreBroughtBackProvesNothing(t *testing.T) {
	usual := All(UsualPool, Node("worker-1"), written("worker-1", 2*minute))
	reports := func(boot string) Part {
		return written("worker-2", 2*minute, Sandbox("box-1", UsualUID), FromBoot(boot), FromMachine(MachineOf("worker-2")))
	}
	cutOff := StaleReport("worker-2", Sandbox("box-1", UsualUID), FromBoot("second"), FromMachine(MachineOf("worker-2")))
	node := func(boot string, edits ...NodeEdit) Part {
		return Node("worker-2", append(edits, Booted(boot), OnMachine(MachineOf("worker-2")))...)
	}
	p := newProcess(t, atOnce)
	p.Restores = &memoryStore{}
	p.pass(0, usual, node("second"), reports("second"), revision(100))
	p.pass(minute, usual, node("second"), reports("second"), revision(90))
	p.pass(2*minute, usual, node("first"), reports("second"), revision(91))
	for _, p := range []*process{p, p.restarted()} {
		if plan := p.pass(hour, usual, node("first", NotReadyFor(minute)), cutOff, revision(93)); len(plan.Release) > 0 {
			t.Error("what it runs is released")
		}
		if it := AllocationOf(t, Judged(p.next, judge.Policy{}), "10.0.0.5"); it.Reason != judge.NodeUnreachable {
			t.Errorf("judged %v", OutcomeOf(it))
		}
	}
	if plan := p.pass(2*hour, usual, node("third", NotReadyFor(minute)), cutOff, revision(94)); len(plan.Release) != 1 {
		t.Errorf("a boot since the restore proves nothing: %v", plan.Refused)
	}
}
