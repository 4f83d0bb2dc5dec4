package reconciler

import (
	"errors"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// A replica that watched before leads after the restore. The API server forbids SandboxReports for a moment when its
// first pass shows the restore, so that this pass does not know which reports are missing. The next one does: worker-9
// is newer than the backup.
func TestRestore_LostNodeWhileReportsAreForbidden(t *testing.T) {
	forbidden := func(o *Observed) {
		o.Reports = facts.Unknown[[]*podstate.Report](errors.New("forbidden"))
	}
	missed := func(o *Observed) { o.MissingReports = map[string]time.Time{"worker-9": Now.Add(minute)} }
	p := storing(t)
	p.passOnce(minute, UsualPool, Node("worker-1"), forbidden, func(o *Observed) { o.Restored = "its watches say so" })
	p.passOnce(minute+time.Second, leakOn(minute), missed)
	if r := p.Process.Known.Status(Judged(p.next, facts.Policy{}).Judgement); r == nil {
		t.Fatal("no restore")
	} else {
		t.Logf("awaiting %v", r.Awaiting)
	}
	p.waits("worker-9 must report", 2*minute, leakOn(2*minute), missed)
	p.waits("worker-9 must still report", hour, leakOn(hour))
}

// The Node object of worker-2 was deleted since the restore. Half an hour later RBAC forbids Nodes, and the node joins
// again: nothing shows that it is still missing when the hour has passed.
func TestRestore_MissingNodeWhileNodesAreUnknown(t *testing.T) {
	stale := StaleReport("worker-2", writtenBefore)
	p := storing(t)
	p.seesRestore(leakOn(0), Node("worker-2", NotReadyFor(hour)), stale)
	p.waits("its object is gone", 2*minute, leakOn(2*minute), stale, revision(91))
	p.waits("half an hour", 30*minute, leakOn(2*minute), stale, revision(92))
	forbidden := All(UsualPool, written("worker-1", 2*minute, Gone("box-1", UsualUID)), stale, NodesUnknown)
	p.waits("forbidden", 40*minute, forbidden, revision(93))
	p.waits("an hour later, it may have joined again", 70*minute, forbidden, revision(94))
	p.waits("it had joined again", 71*minute, leakOn(2*minute), stale, Node("worker-2"), revision(95))
}

// The second restore is a virtual machine that was reset to a snapshot: its clock is an hour late.
func TestRestore_ClockOfASnapshot(t *testing.T) {
	p := storing(t)
	p.seesRestore(leakOn(0))
	p.releases("written since", 2*minute, leakOn(2*minute), revision(91))
	late := Node("worker-2", NotReadyFor(hour))
	p.pass(3*minute, leakOn(2*minute), revision(92), late)
	p.waits("the pass that detects the second one", -hour, leakOn(-hour), revision(80), late)
	p.waits("nobody has reported since", -hour+minute, leakOn(-hour), revision(81), late)
}

// runsOnWorker9 is a process that gives up a node after a quarter of an hour, and has made a pass in which the sandbox
// of 10.0.0.5 runs on worker-9.
func runsOnWorker9(t *testing.T) (*process, ReportEdit) {
	t.Helper()
	p := newProcess(t, quarter)
	p.RestoreStore = &memoryStore{}
	box := Sandbox("box-1", UsualUID, OfPod("web-9"), WithAddress("10.0.0.5", ""))
	p.pass(0, UsualPool, Node("worker-1"), written("worker-1", 0), Node("worker-9"), written("worker-9", 0, box),
		revision(100))
	return p, box
}

// worker-9 is newer than the backup, so that the restore has lost its Node object. Its kubelet runs on, and registers
// it only when it starts. Its agent reports since, and then the node is cut off. Nobody has deleted its Node object.
func TestRestore_LostNodeIsCutOff(t *testing.T) {
	p, box := runsOnWorker9(t)
	p.pass(minute, UsualPool, Node("worker-1"), written("worker-1", 0), revision(90))
	p.pass(2*minute, UsualPool, Node("worker-1"), written("worker-1", 2*minute), written("worker-9", 2*minute, box),
		revision(91))
	cutOff := func(after time.Duration, parts ...Part) *plan.Plan {
		return p.pass(after, append(parts, UsualPool, Node("worker-1"), written("worker-1", after),
			written("worker-9", 2*minute, box, RenewedAt(Now.Add(2*minute))), revision(91+uint64(after/minute)))...)
	}
	for after := 3 * minute; after <= 40*minute; after += minute {
		if made := cutOff(after); len(made.Release) > 0 {
			t.Fatalf("released after %s: %s", after, made.Release[0].Reason)
		}
	}
	// The operator knows that the machine is gone.
	id, isReleased := p.Process.Known.ID(), false
	for after := 41 * minute; after <= 60*minute; after += minute {
		isReleased = isReleased || len(cutOff(after, acknowledged(id)).Release) > 0
	}
	if !isReleased {
		t.Error("not released although the restore is acknowledged")
	}
}

// The same node without a restore: its Node object exists, so nothing is released while it is cut off.
func TestNode_IsCutOff(t *testing.T) {
	p, box := runsOnWorker9(t)
	for after := minute; after <= 40*minute; after += minute {
		made := p.pass(after, UsualPool, Node("worker-1"), written("worker-1", after), Node("worker-9", NotReadyFor(minute)),
			written("worker-9", 0, box, RenewedAt(Now)), revision(100+uint64(after/minute)))
		if len(made.Release) > 0 {
			t.Fatalf("released after %s: %s", after, made.Release[0].Reason)
		}
	}
}
