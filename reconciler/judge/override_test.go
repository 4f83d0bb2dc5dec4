package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Each row of the table is overridden by its own reason: only those for lack of evidence give way, and only where
// nobody else carries the address.
func TestOverride_EachRow(t *testing.T) {
	usual := judge.ID{Object: "kube-system/10.0.0.0-24", Key: "5", ContainerID: "box-1", PodRef: "default/web-0",
		IfName: "net1"}
	anotherID := usual
	anotherID.ContainerID = "box-0"
	for _, r := range tableRows() {
		canBe := r.verdict == judge.Held && (r.reason == judge.NoFreshReportReason || r.reason == judge.NodeUnreachable ||
			r.reason == judge.NetworkStatusMissing)
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				isStuck := r.reason == judge.StuckTerminating && b.state == judge.NoSource
				t.Run(fmt.Sprintf("%s whose sandbox %s: %s", p.says, b.says, r.reason), func(t *testing.T) {
					plain := Want(r.verdict, r.reason, r.proven, b.state)
					want := plain
					if canBe || isStuck {
						want.Verdict = judge.Stale
					}
					Expect(t, want, Asserted(usual, r.reason), UsualPool, p.pod, b.parts)
					Expect(t, plain, Asserted(usual, judge.PodGone), UsualPool, p.pod, b.parts)
					Expect(t, plain, Asserted(anotherID, r.reason), UsualPool, p.pod, b.parts)
					if want == plain {
						return
					}
					asserted := Observe(UsualPool, p.pod, b.parts, Asserted(usual, r.reason))
					it := AllocationOf(t, Judged(asserted, facts.Policy{}), "10.0.0.5")
					if !strings.Contains(it.Message(), "a person asserts") || !strings.Contains(it.Rule(), "overridden") {
						t.Errorf("it does not say that it is asserted: %s; %s", it.Message(), it.Rule())
					}
					claimed := Observe(UsualPool, p.pod, b.parts, Pod("web-1", OnNode("worker-3"), Carrying("10.0.0.5")),
						Asserted(usual, r.reason))
					if it := AllocationOf(t, Judged(claimed, facts.Policy{}), "10.0.0.5"); it.Verdict != judge.Held {
						t.Errorf("another pod carries the address: %s, %s", it.Verdict, it.Reason)
					}
				})
			}
		}
	}
}

func TestOverride_ReservationAlone(t *testing.T) {
	parts := All(empty, Node("worker-1"), StaleReport("worker-1"), reserved)
	held := Judged(Observe(parts), facts.Policy{}).Reservations[0]
	if held.Verdict != judge.Held || held.Reason != judge.NoFreshReportReason || !held.CanBeOverridden() {
		t.Fatalf("it is %s, %s", held.Verdict, held.Reason)
	}
	asserted := Asserted(held.ID(), judge.NoFreshReportReason)
	if it := Judged(Observe(parts, asserted), facts.Policy{}).Reservations[0]; it.Verdict != judge.Stale || it.Proven {
		t.Errorf("overridden it is %s, %s, proven: %v", it.Verdict, it.Reason, it.Proven)
	}
	recreated := All(parts, func(o *Observed) { o.Reservations.Or(nil)[0].UID = "another" })
	if it := Judged(Observe(recreated, asserted), facts.Policy{}).Reservations[0]; it.Verdict != judge.Held {
		t.Errorf("another reservation of the name is %s, %s", it.Verdict, it.Reason)
	}
}
