package serve

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// aReport is the report of a node, confirmed at some time.
func aReport(node string, confirmedAt time.Time) *podstate.Report {
	r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return &podstate.Report{SandboxReport: r, ConfirmedAt: confirmedAt, LeaseRenewedAt: confirmedAt}
}

func TestRemainingWork(t *testing.T) {
	fence := time.Now()
	renewed := func(after time.Duration) judge.Observation {
		return judge.Observation{Reports: judge.Complete([]*podstate.Report{aReport("worker-1", fence.Add(after))}, "")}
	}
	restored := func(awaiting ...string) *judge.RestoreState {
		return &judge.RestoreState{Restored: fence, Awaiting: awaiting}
	}
	for name, c := range map[string]struct {
		observation   judge.Observation
		restore       *judge.RestoreState
		withoutAgents bool
		toRepair      int
		want          string
	}{
		"detected by the pass itself": {judge.Observation{Restored: "x"}, nil, false, 0, "another pass must follow"},
		"restore not observed":        {judge.Observation{}, nil, false, 0, "has not observed the restore"},
		"without agents":              {judge.Observation{}, nil, true, 0, ""},
		"paused":                      {judge.Observation{Paused: true}, restored("worker-1"), false, 3, ""},
		"node without a report":       {renewed(10 * time.Second), restored("worker-9"), false, 0, "worker-9"},
		"report renewed too early":    {renewed(9 * time.Second), restored(), false, 0, "worker-1"},
		"repairs":                     {renewed(10 * time.Second), restored(), false, 3, "3 allocations"},
		"no work":                     {renewed(10 * time.Second), restored(), false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			states := map[string]judge.NodeState{"worker-1": judge.NodeFresh, "worker-2": judge.NodeDeadOrMissing}
			j := &judge.Judgement{Observation: &c.observation, Nodes: states, Restore: c.restore,
				WithoutAgents: c.withoutAgents}
			got := remainingWork(&reconciler.Result{Judgement: j, ToRepair: c.toRepair}, fence)
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
