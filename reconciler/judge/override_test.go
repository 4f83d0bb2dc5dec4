package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// overriding is a policy in which a person asserts that an item is stale.
func overriding(id judge.ID, reason judge.Reason) judge.Policy {
	return judge.Policy{Overrides: map[judge.ID]judge.Reason{id: reason}}
}

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
					ExpectUnder(t, overriding(usual, r.reason), want, UsualPool, p.pod, b.parts)
					ExpectUnder(t, overriding(usual, judge.PodGone), plain, UsualPool, p.pod, b.parts)
					ExpectUnder(t, overriding(anotherID, r.reason), plain, UsualPool, p.pod, b.parts)
					if want == plain {
						return
					}
					it := AllocationOf(t, Judged(Observe(UsualPool, p.pod, b.parts), overriding(usual, r.reason)), "10.0.0.5")
					if !strings.Contains(it.Message(), "a person asserts") || !strings.Contains(it.Rule(), "overridden") {
						t.Errorf("it does not say that it is asserted: %s; %s", it.Message(), it.Rule())
					}
					claimed := Observe(UsualPool, p.pod, b.parts, Pod("web-1", OnNode("worker-3"), Carrying("10.0.0.5")))
					if it := AllocationOf(t, Judged(claimed, overriding(usual, r.reason)), "10.0.0.5"); it.Verdict != judge.Held {
						t.Errorf("another pod carries the address: %s, %s", it.Verdict, it.Reason)
					}
				})
			}
		}
	}
}

func TestOverride_ReservationAlone(t *testing.T) {
	parts := All(Pool("10.0.0.0-24", "10.0.0.0/24"), Node("worker-1"), StaleReport("worker-1"),
		Reservation("10.0.0.5", "default/web-0", LongAgo))
	held := Judged(Observe(parts), judge.Policy{}).Reservations[0]
	if held.Verdict != judge.Held || held.Reason != judge.NoFreshReportReason || !held.CanBeOverridden() {
		t.Fatalf("it is %s, %s", held.Verdict, held.Reason)
	}
	policy := overriding(held.ID(), judge.NoFreshReportReason)
	if it := Judged(Observe(parts), policy).Reservations[0]; it.Verdict != judge.Stale || it.Proven {
		t.Errorf("overridden it is %s, %s, proven: %v", it.Verdict, it.Reason, it.Proven)
	}
	recreated := All(parts, func(o *Observed) { o.Reservations.Or(nil)[0].UID = "another" })
	if it := Judged(Observe(recreated), policy).Reservations[0]; it.Verdict != judge.Held {
		t.Errorf("another reservation of the name is %s, %s", it.Verdict, it.Reason)
	}
}
