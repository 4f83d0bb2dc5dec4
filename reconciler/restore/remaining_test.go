package restore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

func TestGuard_RemainingWork(t *testing.T) {
	renewed := func(after time.Duration) func(fence time.Time) facts.Observation {
		return func(fence time.Time) facts.Observation {
			r := restoretest.Report("worker-1", fence.Add(after))
			return facts.Observation{Reports: facts.Complete([]*podstate.Report{r}, "")}
		}
	}
	is := func(o facts.Observation) func(time.Time) facts.Observation {
		return func(time.Time) facts.Observation { return o }
	}
	restored := func(awaiting ...string) *restore.Status {
		return &restore.Status{Restored: time.Now(), Awaiting: awaiting}
	}
	for name, c := range map[string]struct {
		observed      func(fence time.Time) facts.Observation
		restore       *restore.Status
		withoutAgents bool
		toRepair      int
		unknown       string
		want          string
	}{
		"detected by the pass itself": {is(facts.Observation{Restored: "x"}), nil, false, 0, "", "another pass must follow"},
		"restore not observed":        {is(facts.Observation{}), nil, false, 0, "", "has not observed the restore"},
		"without agents":              {is(facts.Observation{}), nil, true, 0, "", ""},
		"paused":                      {is(facts.Observation{Paused: true}), restored("worker-1"), false, 3, "", ""},
		"a pause that cannot be read": {is(facts.Observation{Paused: true, PauseUnknown: "forbidden"}), restored("worker-1"),
			false, 3, "forbidden", "worker-1"},
		"definitions that cannot be read": {renewed(10 * time.Second), restored(), false, 0, "definitions: forbidden",
			"what remains is unknown: definitions: forbidden"},
		"node without a report":    {renewed(10 * time.Second), restored("worker-9"), false, 0, "", "worker-9"},
		"report renewed too early": {renewed(9 * time.Second), restored(), false, 0, "", "worker-1"},
		"repairs":                  {renewed(10 * time.Second), restored(), false, 3, "", "3 allocations"},
		"no work":                  {renewed(10 * time.Second), restored(), false, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := restoretest.NewCluster()
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				w.RestoreEtcd()
				o := c.observed(w.StandsSince)
				o.FencedSince = w.StandsSince
				states := map[string]facts.NodeState{"worker-1": facts.NodeFresh, "worker-2": facts.NodeDeadOrMissing}
				g.PassEnded(restore.Pass{ToRepair: c.toRepair, Unknown: c.unknown, Restore: c.restore, Judgement: &judge.Judgement{
					Observation: &o, Nodes: states, WithoutAgents: c.withoutAgents}})
				w.Wait(2 * time.Second)
				if c.want == "" {
					haveOutcomes(t, w, restore.Settled)
					return
				}
				haveOutcomes(t, w)
				w.Wait(restore.LongestFence)
				haveOutcomes(t, w, restore.TimedOut)
				if got := eventsOf[restore.Lowered](w)[0].Remaining; !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}
