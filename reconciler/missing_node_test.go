package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Nobody would ever write that report again.
func TestTheClaimsOfAMissingNodeEndWhenNodeMissingIsRipe(t *testing.T) {
	claims := box("box-2", "uid-9", of("web-1"), holding("10.0.0.5", ""))
	ends := outcome{judge.Stale, judge.PodGone, false, judge.Gone} // and waits to be confirmed for as long as NodeMissing at the least
	heard := heardAt(now.Add(-3 * time.Hour))
	gone := staleReport("worker-2", claims, heard)
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"at the first look, soon after its agent was heard", claimed, []part{staleReport("worker-2", claims)}},
		{"at the first look, hours after its agent was heard", ends, []part{gone}},
		{"missing for two hours", ends, []part{gone, seenEvery(2*time.Hour, goneBox, gone)}},
		{"missing for two hours with an attachment", ends, func() []part {
			r := staleReport("worker-2", attachment("box-2", "uid-9", time.Minute, open, address("10.0.0.5", "")), heard)
			return []part{r, seenEvery(2*time.Hour, goneBox, r)}
		}()},
		{"missing for two hours, and its agent is heard all the same", claimed,
			[]part{freshReport("worker-2", claims), seenEvery(2*time.Hour, goneBox, gone)}},
		{"silent for hours, and there", claimed, []part{aNode("worker-2"), gone, seenEvery(2*time.Hour, goneBox, aNode("worker-2"), gone)}},
		{"there a moment ago", ends, []part{gone, seenEvery(2*time.Hour, goneBox, aNode("worker-2"), gone)}},
		{"missing, where nothing is known of nodes", claimed, []part{gone, func(o *observed) { clear(o.Nodes) }}},
	} {
		t.Run(c.says, func(t *testing.T) { expect(t, c.want, append([]part{goneBox}, c.parts...)...) })
	}
}
