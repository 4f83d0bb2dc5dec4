package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// o.Now may be by another API server's clock than in the pass before.
func TestNodeMissingIsConfirmedByThisProcessOwnClockToo(t *testing.T) {
	for says, c := range map[string]Part{
		"of which there is a report": All(UsualPool, Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", Sandbox("box-1", UsualUID), RenewedAt(Now.Add(-time.Hour)))),
		"without a report":           All(UsualPool, Node("worker-2"), UsualPod(DeletedAgo(0))),
	} {
		t.Run("a node "+says+", missing for ten seconds", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(0, c)
			p.skew = 10*time.Second - time.Hour // this machine's clock went on by as much
			p.wantRefused("the API server's clock went on by an hour", AwaitingConfirmation, p.pass(time.Hour, c))
		})
		t.Run("a node "+says+", missing for an hour", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(0, c)
			p.wantReleased("both clocks went on by an hour", p.pass(time.Hour, c))
		})
	}
	t.Run("a node without a report, for less than --confirm-after", func(t *testing.T) {
		c := All(UsualPool, Node("worker-2"), UsualPod(DeletedAgo(0)))
		p := newProcess(t, quarter)
		p.pass(0, c)
		p.skew = 14*time.Minute - time.Hour
		p.wantRefused("the API server's clock went on by an hour", AwaitingConfirmation, p.pass(time.Hour, c))
	})
}

// From the first pass to the plan.
func TestAPodThatEndsSlowlyOnAMachineThatReplacedAnotherKeepsItsAddress(t *testing.T) {
	p := newProcess(t, quarter)
	parts := []Part{UsualPool, UsualPod(OnNode("worker-2"), DeletedAgo(-2*time.Hour), Carrying("10.0.0.5")), ReplacedMachine()}
	p.pass(0, parts...)
	if plan := p.pass(time.Hour, parts...); len(plan.Release) > 0 {
		t.Errorf("released: %s", plan.Release[0].Message())
	}
}

// The Node object of the pod's node must have been gone for as long as that must be, whatever --confirm-after says.
func TestAReportAboutAPodOfAMissingNodeRestsOnThatNodeBeingGone(t *testing.T) {
	j := Judged(Observe(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", OtherUID)), UsualPod(OnNode("worker-2"), DeletedAgo(0))), judge.Policy{})
	it := AllocationOf(t, j, "10.0.0.5")
	if it.Verdict == judge.Stale && !it.Evidence().MissingNode {
		t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
	}
	p := newProcess(t, Options{})
	parts := []Part{UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", OtherUID)), UsualPod(OnNode("worker-2"), DeletedAgo(0))}
	if plan := p.pass(0, parts...); len(plan.Release) > 0 {
		t.Errorf("released at the first pass that misses the node: %s", plan.Release[0].Message())
	}
}
