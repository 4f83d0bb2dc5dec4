package judge_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The entry is of a node that has booted since its report; only another node has an agent, which
// neither has the sandbox nor its address.
func TestABootCountsFromTheFirstAgentThatIsHeardToTheLast(t *testing.T) {
	cluster := All(UsualPool, Node("worker-1", Booted("boot-2")), StaleReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))), Node("worker-2"))
	for says, c := range map[string]struct {
		report Part
		change judge.Live
		want   judge.Verdict
	}{
		"an agent is heard":             {FreshReport("worker-2"), judge.Live{}, judge.Stale},
		"no agent is heard":             {StaleReport("worker-2"), judge.Live{}, judge.Held},
		"the last agent becomes silent": {FreshReport("worker-2"), judge.Live{Now: Now.Add(2 * time.Minute)}, judge.Held},
	} {
		t.Run(says, func(t *testing.T) {
			o := Observe(cluster, c.report)
			x, address := judge.NewIndex(o.Observation, o.Past, judge.Policy{}), []netip.Addr{netip.MustParseAddr("10.0.0.5")}
			x.JudgeAddresses(address) // what it remembers must not outlive the change
			j := x.With(&c.change).JudgeAddresses(address)
			if len(j.Allocations) != 1 || j.Allocations[0].Verdict != c.want {
				t.Errorf("%v, want one that is %s", Describe(j), c.want)
			}
		})
	}
}

// The first report of a node that has just joined is by an agent that cannot know of a restore.
func TestABootCountsOnlyByAgentsThatWereThereBefore(t *testing.T) {
	j := Judged(Observe(UsualPool, Node("worker-1", Booted("boot-2")), StaleReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
		Node("worker-2"), FreshReport("worker-2", JustMade)), judge.Policy{})
	if len(j.Allocations) != 1 || j.Allocations[0].Verdict != judge.Held {
		t.Errorf("%v, want one that is Held", Describe(j))
	}
}

func TestAReportOfAnotherMachineSaysWhatItListsAndNoMore(t *testing.T) {
	for says, c := range map[string]struct {
		report Part
		want   judge.Verdict
	}{
		"nothing":         {FreshReport("worker-1"), judge.Held},
		"that it is gone": {FreshReport("worker-1", Gone("box-1", UsualUID)), judge.Stale},
	} {
		j := Judged(Observe(UsualPool, Node("worker-1", OnMachine(MachineOf("another"))), c.report), judge.Policy{})
		if len(j.Allocations) != 1 || j.Allocations[0].Verdict != c.want {
			t.Errorf("it says %s: %v, want one that is %s", says, Describe(j), c.want)
		}
	}
}
