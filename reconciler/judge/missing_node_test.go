package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Nobody would ever write that report again.
func TestTheClaimsOfAMissingNodeEndWhenNodeMissingIsConfirmed(t *testing.T) {
	claims := Sandbox("box-2", "uid-9", OfPod("web-1"), WithAddress("10.0.0.5", ""))
	ends := Want(judge.Stale, judge.PodGone, false, judge.Gone) // and waits to be confirmed for as long as NodeMissing at the least
	heard := RenewedAt(Now.Add(-3 * time.Hour))
	gone := StaleReport("worker-2", claims, heard)
	for _, c := range []struct {
		says  string
		want  Outcome
		parts []Part
	}{
		{"at the first pass, soon after its agent was heard", claimed, []Part{StaleReport("worker-2", claims)}},
		{"at the first pass, hours after its agent was heard", ends, []Part{gone}},
		{"missing for two hours", ends, []Part{gone, afterPassesOver(2*time.Hour, UsualSandboxGone, gone)}},
		{"missing for two hours with an attachment", ends, func() []Part {
			r := StaleReport("worker-2", Attachment("box-2", "uid-9", time.Minute, Open, Address("10.0.0.5", "")), heard)
			return []Part{r, afterPassesOver(2*time.Hour, UsualSandboxGone, r)}
		}()},
		{"missing for two hours, and its agent is heard all the same", claimed,
			[]Part{FreshReport("worker-2", claims), afterPassesOver(2*time.Hour, UsualSandboxGone, gone)}},
		{"silent for hours, and there", claimed, []Part{Node("worker-2"), gone, afterPassesOver(2*time.Hour, UsualSandboxGone, Node("worker-2"), gone)}},
		{"there a moment ago", ends, []Part{gone, afterPassesOver(2*time.Hour, UsualSandboxGone, Node("worker-2"), gone)}},
		{"missing, where nothing is known of nodes", claimed, []Part{gone, func(o *Observed) { clear(o.Nodes) }}},
	} {
		t.Run(c.says, func(t *testing.T) { Expect(t, c.want, append([]Part{UsualSandboxGone}, c.parts...)...) })
	}
}
