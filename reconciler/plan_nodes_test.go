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

// From the first pass to the plan.
func TestAPodThatEndsSlowlyOnAMachineThatReplacedAnotherKeepsItsAddress(t *testing.T) {
	p := newProcess(t, quarter)
	scene := []part{usualPool, web(onNode("worker-2"), deletedAgo(-2*time.Hour), carrying("10.0.0.5")), anotherMachine()}
	p.look(0, scene...)
	if plan := p.look(time.Hour, scene...); len(plan.Release) > 0 {
		t.Errorf("released: %s", plan.Release[0].Message())
	}
}

// The Node object of the pod's node must have been gone for as long as that must be,
// whatever --confirm-after says.
func TestWhatOneNodeTellsOfAPodOnAMissingNodeRestsOnThatNodeBeingGone(t *testing.T) {
	j := judged(observe(usualPool, aNode("worker-1"), freshReport("worker-1", gone("box-1", others)), web(onNode("worker-2"), deletedAgo(0))), judge.Policy{})
	it := allocation(t, j, "10.0.0.5")
	if it.Verdict == judge.Stale && !it.Evidence().MissingNode {
		t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
	}
	p := newProcess(t, Options{})
	parts := []part{usualPool, aNode("worker-1"), freshReport("worker-1", gone("box-1", others)), web(onNode("worker-2"), deletedAgo(0))}
	if plan := p.look(0, parts...); len(plan.Release) > 0 {
		t.Errorf("released at the first look that misses the node: %s", plan.Release[0].Message())
	}
}
