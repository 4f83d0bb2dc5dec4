package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func unread(b *reportedBox) { b.AddressesUnread = true }

// The agent knows one of the addresses, and says that it does not know all.
func TestAPodsStatusCountsWhereItsSandboxesAddressesAreReadInPart(t *testing.T) {
	two := aPod("web-1", uid("uid-9"), status(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.6"]},{"name":"default/wb","interface":"net2","ips":["10.0.0.5"]}]`))
	expect(t, claimed, usualPool, aNode("worker-1"), two,
		freshReport("worker-1", gone("box-1", its1), box("box-9", "uid-9", of("web-1"), holding("10.0.0.6", ""), unread)))
}

// Its status tells the addresses of the sandbox that was not read, and the entry still
// names the one before.
func TestASandboxThatWasNotReadMayCarryWhatTheStatusOfItsPodTells(t *testing.T) {
	expectKept(t, usualPool, aNode("worker-1"), web(deletedAgo(-time.Minute), carrying("10.0.0.5")),
		freshReport("worker-1", gone("box-1", its1), box("box-2", its1, unread)))
}

// What may have been on a node that is gone ends with it, and is never proven: as with a
// sandbox of which the addresses are known.
func TestWhatLapsedWithAMissingNodeProvesNothingWhereItWasNotRead(t *testing.T) {
	lapsed := func(edits ...boxEdit) part {
		return staleReport("worker-2", box("box-9", "uid-9", append(edits, of("web-1"))...), heardAt(now.Add(-3*time.Hour)))
	}
	base := all(usualPool, aNode("worker-1"), freshReport("worker-1", gone("box-1", its1)))
	for says, report := range map[string]part{"read": lapsed(holding("10.0.0.5", "")), "not read": lapsed(unread)} {
		t.Run(says, func(t *testing.T) {
			it := allocation(t, judged(observe(base, report), judge.Policy{}), "10.0.0.5")
			if it.Proven || !it.Evidence().MissingNode {
				t.Errorf("%v, rests on a missing node: %v\nit says: %s", outcomeOf(it), it.Evidence().MissingNode, it.Message())
			}
		})
	}
}
