package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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

// Each Node's boot is doubted after a restore: of thousands of nodes that would be more than
// the next process can be told.
func TestABootThatANodeReportsAfterARestoreIsBelieved(t *testing.T) {
	const nodes = 5000
	name := func(i int) string { return fmt.Sprintf("ip-10-128-%d-%d.eu-central-1.compute.internal", i/250, i%250) }
	boot := func(i int) string { return fmt.Sprintf("8a0c3e5f-1d2b-4c3a-9e8f-%012d", i) }
	var before, silent, after []Part
	for i := range nodes {
		node := Node(name(i), Booted(boot(i)), OnMachine(MachineOf(name(i))))
		report := func(at time.Duration) Part {
			return written(name(i), at, FromBoot(boot(i)), FromMachine(MachineOf(name(i))))
		}
		before, after = append(before, node, report(0)), append(after, node, report(2*minute))
		if i == 0 {
			silent = append(silent, node, written(name(i), 0, FromBoot(boot(i)), FromMachine(MachineOf(name(i))), RenewedAt(Now)))
		} else {
			silent = append(silent, node, report(2*minute))
		}
	}
	p := newProcess(t, atOnce)
	store := &memoryStore{}
	p.Restores = store
	p.pass(0, append(before, revision(100))...)
	p.pass(minute, append(before, revision(90))...)
	kept := func() (boots []string) {
		d, err := readRestore(store.text, p.next.Now)
		if err != nil || d.DoubtsAll {
			t.Fatalf("what is kept: doubts all %v, %v", d.DoubtsAll, err)
		}
		return slices.Sorted(maps.Keys(d.Boots))
	}
	p.pass(2*minute, append(silent, revision(91))...)
	if got := kept(); !slices.Equal(got, []string{name(0)}) {
		t.Errorf("while one has not reported, kept are the boots of %d nodes: %.3v", len(got), got)
	}
	p.pass(3*minute, append(after, revision(92))...)
	if got := kept(); len(got) > 0 {
		t.Errorf("kept are the boots of %v", got)
	}
	if strings.Contains(store.text, boot(0)) {
		t.Error("a boot that is believed is kept")
	}
}
