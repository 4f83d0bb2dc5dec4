package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// o.Now may be by another API server's clock than in the pass before.
func TestNodeMissingRipensByThisProcessOwnClockToo(t *testing.T) {
	for says, c := range map[string]part{
		"of which there is a report": all(usualPool, aNode("worker-2"), freshReport("worker-2"), staleReport("worker-1", box("box-1", its1), heardAt(now.Add(-time.Hour)))),
		"without a report":           all(usualPool, aNode("worker-2"), web(deletedAgo(0))),
	} {
		t.Run("a node "+says+", missing for ten seconds", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.look(0, c)
			p.skew = 10*time.Second - time.Hour // this machine's clock went on by as much
			p.wantRefused("the API server's clock went on by an hour", AwaitingConfirmation, p.look(time.Hour, c))
		})
		t.Run("a node "+says+", missing for an hour", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.look(0, c)
			p.wantReleased("both clocks went on by an hour", p.look(time.Hour, c))
		})
	}
	t.Run("a node without a report, for less than --confirm-after", func(t *testing.T) {
		c := all(usualPool, aNode("worker-2"), web(deletedAgo(0)))
		p := newProcess(t, quarter)
		p.look(0, c)
		p.skew = 14*time.Minute - time.Hour
		p.wantRefused("the API server's clock went on by an hour", AwaitingConfirmation, p.look(time.Hour, c))
	})
}

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
