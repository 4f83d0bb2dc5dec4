package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ADD reuses the entry of a pod of the same name before it writes its own id
// there, and what a successor carries is in use.
func TestTheAddressIsOnASuccessor(t *testing.T) {
	held := resOutcome{judge.Held, judge.ClaimedByOther, false}
	carries, starts, ends := carrying("10.0.0.5"), phaseIs("Pending"), deletedAgo(-30*time.Second)
	elsewhere := all(aNode("worker-1"), aNode("worker-2"), freshReport("worker-2"))
	for _, c := range []struct {
		says  string
		want  resOutcome
		parts []part
	}{
		{"Pending, the sandbox was another pod's and is gone", held, []part{web(starts, carries), onWorker(gone("box-1", others))}},
		{"Pending, the sandbox was another pod's and has stopped", held, []part{web(starts, carries), onWorker(box("box-1", others, notReady(closed)))}},
		{"Pending, the sandbox was another pod's on a dead node", held, []part{web(starts, carries, onNode("worker-2")),
			diedWithNode(others).parts, aNode("worker-2"), freshReport("worker-2")}},
		{"Pending, and no report has the sandbox", held, []part{web(starts, carries), onWorker()}},
		{"Pending, the address among the podIPs", held, []part{web(starts, podIPs("10.0.0.5")), onWorker(gone("box-1", others))}},
		{"terminating, the sandbox was another pod's and is gone", held, []part{web(ends, carries), onWorker(gone("box-1", others))}},
		{"terminating, the sandbox was another pod's and has stopped", held, []part{web(ends, carries), onWorker(box("box-1", others, notReady(closed)))}},
		{"terminating, and nothing says whose the sandbox was", held, []part{web(ends, carries), onWorker(gone("box-1", unsaid))}},
		{"terminating, and no report has the sandbox", held, []part{web(ends, carries), onWorker()}},
		{"terminating on another node than the one where the sandbox is gone", held, []part{web(ends, carries, onNode("worker-2")),
			elsewhere, freshReport("worker-1", gone("box-1", its1))}},
		{"terminating on a node that is missing", resOutcome{judge.Stale, judge.NodeMissingReason, false},
			[]part{web(ends, carries), aNode("worker-2"), freshReport("worker-2"), staleReport("worker-1", box("box-1", its1))}},
		{"terminating on a node that is dead", resOutcome{judge.Stale, judge.NodeDeadReason, true}, []part{web(ends, carries), diedWithNode(its1).parts}},
		{"terminating, and its own sandbox is gone from its own node", resOutcome{judge.Stale, judge.SandboxStopped, true}, []part{web(ends, carries), onWorker(gone("box-1", its1))}},
		{"Pending and never bound to a node", resOutcome{judge.Stale, judge.PodReplaced, false}, []part{web(starts, carries, onNode("")), onWorker()}},
		{"terminating and never bound to a node", resOutcome{judge.Stale, judge.SandboxStopped, true}, []part{web(ends, carries, onNode("")), onWorker(gone("box-1", others))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectVerdict(t, c.want, append([]part{usualPool}, c.parts...)...) })
	}
}

// In the first minute the agent may have looked last before the successor's ADD.
func TestASuccessorThatIsPendingIsNotProvenWithinItsFirstMinute(t *testing.T) {
	for _, c := range []what{hasStopped(others), isGone(others), diedWithNode(others)} {
		young := web(phaseIs("Pending"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-30 * time.Second)) })
		t.Run("whose sandbox "+c.says, func(t *testing.T) {
			it := allocation(t, judged(observe(usualPool, young, c.parts), judge.Policy{}), "10.0.0.5")
			if it.Proven {
				t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
			}
			expectVerdict(t, resOutcome{judge.Stale, judge.PodReplaced, true}, usualPool, pending.pod, c.parts, seenEvery(20*time.Minute, usualPool, pending.pod, c.parts))
		})
	}
}

// Whatever is said of its network: containers run in it.
func TestAReadySandboxAlwaysHoldsItsAddresses(t *testing.T) {
	ready := func(r *reportedBox) { r.NetworkClosed = closed }
	other := box("box-2", "uid-9", of("web-1"), holding("10.0.0.5", ""), ready)
	expect(t, claimed, goneBox, aNode("worker-2"), freshReport("worker-2", other))
	expect(t, claimed, goneBox, aNode("worker-2"), staleReport("worker-2", other))
	expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.PhantomPod, false}, aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", old), onWorker(other))
}

// One pod that waits for a node for ever must not keep a whole range.
func TestAPodThatWasNeverBoundToANodeClaimsNothing(t *testing.T) {
	carries := []podEdit{uid("uid-9"), phaseIs("Pending"), carrying("10.0.0.5")}
	expect(t, freed, goneBox, aPod("web-1", append(carries, onNode(""))...))
	expect(t, claimed, goneBox, aPod("web-1", append(carries, onNode("worker-2"))...))
	expectReservation(t, "10.0.0.5", resOutcome{judge.Stale, judge.PodGone, false}, aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", old),
		onWorker(), aPod("web-1", append(carries, onNode(""))...))
}

// What a sandbox really has says more than what anybody may write at its pod.
func TestWhereThePodsSandboxIsListedItsAddressesCountAndNotTheAnnotation(t *testing.T) {
	pod := aPod("web-1", uid("uid-9"), onNode("worker-2"), carrying("10.0.0.5"))
	its := func(uid string, edits ...boxEdit) content {
		return box("box-2", uid, append([]boxEdit{of("web-1")}, edits...)...)
	}
	for _, c := range []struct {
		says   string
		want   outcome
		report part
	}{
		{"it has another address", freed, freshReport("worker-2", its("uid-9", holding("10.0.0.6", "")))},
		{"it has this address too", claimed, freshReport("worker-2", its("uid-9", holding("10.0.0.6", ""), holding("10.0.0.5", "")))},
		{"its addresses are not told", claimed, freshReport("worker-2", its("uid-9"))},
		{"the report is old", claimed, staleReport("worker-2", its("uid-9", holding("10.0.0.6", "")))},
		{"the sandbox is of another pod of that name", claimed, freshReport("worker-2", its("uid-8", holding("10.0.0.6", "")))},
		{"the sandbox is on another node", claimed, all(aNode("worker-3"), staleReport("worker-2"), freshReport("worker-3", its("uid-9", holding("10.0.0.6", ""))))},
		{"nothing is listed", claimed, freshReport("worker-2")},
	} {
		t.Run(c.says, func(t *testing.T) { expect(t, c.want, goneBox, aNode("worker-2"), pod, c.report) })
	}
}
