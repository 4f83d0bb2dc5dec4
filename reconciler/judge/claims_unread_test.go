package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func unread(b *v1alpha1.Sandbox) { b.AddressesUnread = true }

// The agent knows one of the addresses, and says that it does not know all.
func TestAPodsStatusCountsWhereItsSandboxesAddressesAreReadInPart(t *testing.T) {
	two := Pod("web-1", UID("uid-9"), NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.6"]},{"name":"default/wb","interface":"net2","ips":["10.0.0.5"]}]`))
	Expect(t, claimed, UsualPool, Node("worker-1"), two,
		FreshReport("worker-1", Gone("box-1", UsualUID), Sandbox("box-9", "uid-9", OfPod("web-1"), WithAddress("10.0.0.6", ""), unread)))
}

// Its status has the addresses of the sandbox that was not read, and the entry still
// names the one before.
func TestASandboxThatWasNotReadMayCarryTheAddressesOfItsPod(t *testing.T) {
	expectKept(t, UsualPool, Node("worker-1"), UsualPod(DeletedAgo(-time.Minute), Carrying("10.0.0.5")),
		FreshReport("worker-1", Gone("box-1", UsualUID), Sandbox("box-2", UsualUID, unread)))
}

// What may have been on a node that is gone ends with it, and is never proven: as with a
// sandbox of which the addresses are known.
func TestWhatLapsedWithAMissingNodeProvesNothingWhereItWasNotRead(t *testing.T) {
	lapsed := func(edits ...SandboxEdit) Part {
		return StaleReport("worker-2", Sandbox("box-9", "uid-9", append(edits, OfPod("web-1"))...), RenewedAt(Now.Add(-3*time.Hour)))
	}
	base := All(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID)))
	for says, report := range map[string]Part{"read": lapsed(WithAddress("10.0.0.5", "")), "not read": lapsed(unread)} {
		t.Run(says, func(t *testing.T) {
			it := AllocationOf(t, Judged(Observe(base, report), judge.Policy{}), "10.0.0.5")
			if it.Proven || !it.Evidence().MissingNode {
				t.Errorf("%v, rests on a missing node: %v\nit says: %s", OutcomeOf(it), it.Evidence().MissingNode, it.Message())
			}
		})
	}
}
