package judge_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// ADD reuses the entry of a pod of the same name before it writes its own id
// there, and what a successor carries is in use.
func TestTheAddressIsOnASuccessor(t *testing.T) {
	held := decision{judge.Held, judge.ClaimedByOther, false}
	carries, starts, ends := Carrying("10.0.0.5"), Phase("Pending"), DeletedAgo(-30*time.Second)
	elsewhere := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	for _, c := range []struct {
		says  string
		want  decision
		parts []Part
	}{
		{"Pending, the sandbox was another pod's and is gone", held, []Part{UsualPod(starts, carries), ReportingWorker(Gone("box-1", OtherUID))}},
		{"Pending, the sandbox was another pod's and has stopped", held, []Part{UsualPod(starts, carries), ReportingWorker(Sandbox("box-1", OtherUID, NotReady(Closed)))}},
		{"Pending, the sandbox was another pod's on a dead node", held, []Part{UsualPod(starts, carries, OnNode("worker-2")),
			diedWithNode(OtherUID).parts, Node("worker-2"), FreshReport("worker-2")}},
		{"Pending, and no report has the sandbox", held, []Part{UsualPod(starts, carries), ReportingWorker()}},
		{"Pending, the address among the podIPs", held, []Part{UsualPod(starts, PodIPs("10.0.0.5")), ReportingWorker(Gone("box-1", OtherUID))}},
		{"terminating, the sandbox was another pod's and is gone", held, []Part{UsualPod(ends, carries), ReportingWorker(Gone("box-1", OtherUID))}},
		{"terminating, the sandbox was another pod's and has stopped", held, []Part{UsualPod(ends, carries), ReportingWorker(Sandbox("box-1", OtherUID, NotReady(Closed)))}},
		{"terminating, and nothing says whose the sandbox was", held, []Part{UsualPod(ends, carries), ReportingWorker(Gone("box-1", NoUID))}},
		{"terminating, and no report has the sandbox", held, []Part{UsualPod(ends, carries), ReportingWorker()}},
		{"terminating on another node than the one where the sandbox is gone", held, []Part{UsualPod(ends, carries, OnNode("worker-2")),
			elsewhere, FreshReport("worker-1", Gone("box-1", UsualUID))}},
		{"terminating on a node that is missing", decision{judge.Stale, judge.NodeMissingReason, false},
			[]Part{UsualPod(ends, carries), Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"terminating on a node that is dead", decision{judge.Stale, judge.NodeDeadReason, true}, []Part{UsualPod(ends, carries), diedWithNode(UsualUID).parts}},
		{"terminating, and its own sandbox is gone from its own node", decision{judge.Stale, judge.SandboxStopped, true}, []Part{UsualPod(ends, carries), ReportingWorker(Gone("box-1", UsualUID))}},
		{"Pending and never bound to a node", decision{judge.Stale, judge.PodReplaced, false}, []Part{UsualPod(starts, carries, OnNode("")), ReportingWorker()}},
		{"terminating and never bound to a node", decision{judge.Stale, judge.SandboxStopped, true}, []Part{UsualPod(ends, carries, OnNode("")), ReportingWorker(Gone("box-1", OtherUID))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectVerdict(t, c.want, append([]Part{UsualPool}, c.parts...)...) })
	}
}

// In the first minute the agent may have inspected the node last before the successor's ADD.
func TestASuccessorThatIsPendingIsNotProvenWithinItsFirstMinute(t *testing.T) {
	for _, c := range []sandboxCase{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)} {
		young := UsualPod(Phase("Pending"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(Now.Add(-30 * time.Second)) })
		t.Run("whose sandbox "+c.says, func(t *testing.T) {
			it := AllocationOf(t, Judged(Observe(UsualPool, young, c.parts), judge.Policy{}), "10.0.0.5")
			if it.Proven {
				t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
			}
			expectVerdict(t, decision{judge.Stale, judge.PodReplaced, true}, UsualPool, pending.pod, c.parts, afterPassesOver(20*time.Minute, UsualPool, pending.pod, c.parts))
			expectVerdict(t, decision{judge.Stale, judge.PodReplaced, false}, UsualPool, pending.pod, c.parts, afterPassesOver(59*time.Second, UsualPool, pending.pod, c.parts))
		})
	}
}

// Whatever is said of its network: containers run in it.
func TestAReadySandboxAlwaysHoldsItsAddresses(t *testing.T) {
	ready := func(r *v1alpha1.Sandbox) { r.NetworkClosed = Closed }
	other := Sandbox("box-2", "uid-9", OfPod("web-1"), WithAddress("10.0.0.5", ""), ready)
	Expect(t, claimed, UsualSandboxGone, Node("worker-2"), FreshReport("worker-2", other))
	Expect(t, claimed, UsualSandboxGone, Node("worker-2"), StaleReport("worker-2", other))
	expectReservation(t, "10.0.0.5", decision{judge.Held, judge.PhantomPod, false}, Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", LongAgo), ReportingWorker(other))
}

// One pod that waits for a node for ever must not keep a whole range.
func TestAPodThatWasNeverBoundToANodeClaimsNothing(t *testing.T) {
	carries := []PodEdit{UID("uid-9"), Phase("Pending"), Carrying("10.0.0.5")}
	Expect(t, freed, UsualSandboxGone, Pod("web-1", append(carries, OnNode(""))...))
	Expect(t, claimed, UsualSandboxGone, Pod("web-1", append(carries, OnNode("worker-2"))...))
	expectReservation(t, "10.0.0.5", decision{judge.Stale, judge.PodGone, false}, Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", LongAgo),
		ReportingWorker(), Pod("web-1", append(carries, OnNode(""))...))
}

// What a sandbox really has says more than what anybody may write at its pod.
func TestWhereThePodsSandboxIsListedItsAddressesCountAndNotTheAnnotation(t *testing.T) {
	pod := Pod("web-1", UID("uid-9"), OnNode("worker-2"), Carrying("10.0.0.5"))
	its := func(uid string, edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-2", uid, append([]SandboxEdit{OfPod("web-1")}, edits...)...)
	}
	for _, c := range []struct {
		says   string
		want   Outcome
		report Part
	}{
		{"it has another address", freed, FreshReport("worker-2", its("uid-9", WithAddress("10.0.0.6", "")))},
		{"it has this address too", claimed, FreshReport("worker-2", its("uid-9", WithAddress("10.0.0.6", ""), WithAddress("10.0.0.5", "")))},
		{"its addresses are not reported", claimed, FreshReport("worker-2", its("uid-9"))},
		{"the report is old", claimed, StaleReport("worker-2", its("uid-9", WithAddress("10.0.0.6", "")))},
		{"the sandbox is of another pod of that name", claimed, FreshReport("worker-2", its("uid-8", WithAddress("10.0.0.6", "")))},
		{"the sandbox is on another node", claimed, All(Node("worker-3"), StaleReport("worker-2"), FreshReport("worker-3", its("uid-9", WithAddress("10.0.0.6", ""))))},
		{"nothing is listed", claimed, FreshReport("worker-2")},
	} {
		t.Run(c.says, func(t *testing.T) { Expect(t, c.want, UsualSandboxGone, Node("worker-2"), pod, c.report) })
	}
}
