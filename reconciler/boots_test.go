package reconciler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Another machine took the name worker-2 between backup and restore, and reported to the restored cluster. It became
// unreachable before kubelet wrote its identity again: the Node has the earlier machine.
func TestRestore_MachineOfTheBackup(t *testing.T) {
	usual := All(UsualPool, UsualPod(Phase("Failed")), Node("worker-1"), written("worker-1", 2*minute))
	edits := []ReportEdit{Sandbox("box-1", UsualUID), FromBoot("second"), FromMachine(MachineOf("second"))}
	reported, unreachable := written("worker-2", 2*minute, edits...), StaleReport("worker-2",
		append(edits, RenewedAt(Now.Add(-hour)))...)
	node := func(boot string, edits ...NodeEdit) Part {
		return Node("worker-2", append(edits, Booted(boot), OnMachine(MachineOf(boot)))...)
	}
	p := newProcess(t, atOnce)
	p.RestoreStore = &memoryStore{}
	p.pass(0, usual, node("second"), reported, revision(100))
	p.pass(minute, usual, node("second"), reported, revision(90))
	p.pass(2*minute, usual, node("first"), reported, revision(91))
	for _, p := range []*process{p, p.restarted()} {
		p.pass(hour, usual, node("first", NotReadyFor(minute)), unreachable, revision(93))
		if it := AllocationOf(t, Judged(p.next, judge.Policy{}), "10.0.0.5"); it.Reason != judge.NodeUnreachable {
			t.Errorf("judged %v", OutcomeOf(it))
		}
	}
	p.pass(2*hour, usual, node("third", NotReadyFor(minute)), unreachable, revision(94))
	if it := AllocationOf(t, Judged(p.next, judge.Policy{}), "10.0.0.5"); it.Reason != judge.NodeMissingReason {
		t.Errorf("a machine that came since the restore did not replace the one before: %v", OutcomeOf(it))
	}
}

// Each Node's boot is in doubt after a restore until the node reports it. For thousands of nodes the store has no room.
func TestRestore_BootReportedSince(t *testing.T) {
	node := func(name string, writtenAfter time.Duration) Part {
		return All(Node(name, Booted("boot of "+name), OnMachine(MachineOf(name))),
			written(name, writtenAfter, FromBoot("boot of "+name), FromMachine(MachineOf(name)),
				RenewedAt(Now.Add(writtenAfter))))
	}
	p, store := newProcess(t, atOnce), &memoryStore{}
	p.RestoreStore = store
	p.pass(0, node("silent", 0), node("worker-1", 0), revision(100))
	p.pass(minute, node("silent", 0), node("worker-1", 0), revision(90))
	for _, c := range []struct {
		at, silent time.Duration
		kept       []string
	}{{2 * minute, 0, []string{"silent"}}, {3 * minute, 3 * minute, nil}} {
		p.pass(c.at, node("silent", c.silent), node("worker-1", 2*minute), revision(91))
		d, err := readRestore(store.text, p.next.Now)
		if got := slices.Sorted(maps.Keys(d.Boots)); err != nil || d.DoubtsAll || !slices.Equal(got, c.kept) {
			t.Errorf("the store has the boots of %v, DoubtsAll %v, %v", got, d.DoubtsAll, err)
		}
		if strings.Contains(store.text, "boot of worker-1") {
			t.Error("the store has a boot that is not in doubt")
		}
	}
}
