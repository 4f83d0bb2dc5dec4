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

func TestWhatRemainsToBeDoneAfterARestore(t *testing.T) {
	now := time.Now()
	state := func(awaiting ...string) *judge.RestoreState {
		return &judge.RestoreState{Restored: now, Awaiting: awaiting}
	}
	report := func(renewed time.Time) []*podstate.Report {
		return []*podstate.Report{{SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}, ConfirmedAt: renewed}}
	}
	fresh := map[string]judge.NodeState{"worker-1": judge.NodeFresh, "worker-2": judge.NodeDeadOrMissing}
	for says, c := range map[string]struct {
		out  reconciler.Result
		left string
	}{
		"the pass showed the restore itself": {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Restored: "x"}}}, "another pass must follow"},
		"it does not know of the restore":    {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{}}}, "has not observed the restore"},
		"there are no agents":                {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{}, WithoutAgents: true}}, ""},
		"all is paused":                      {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Paused: true}, Restore: state("worker-1")}, ToRepair: 3}, ""},
		"a node is waited for":               {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Reports: report(now.Add(10 * time.Second))}, Nodes: fresh, Restore: state("worker-9")}}, "worker-9"},
		"a report was renewed too early":     {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Reports: report(now.Add(10*time.Second - time.Second))}, Nodes: fresh, Restore: state()}}, "worker-1"},
		"something is not written yet":       {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Reports: report(now.Add(10 * time.Second))}, Nodes: fresh, Restore: state()}, ToRepair: 3}, "3 allocations"},
		"nothing":                            {reconciler.Result{Judgement: &judge.Judgement{Observation: &judge.Observation{Reports: report(now.Add(10 * time.Second))}, Nodes: fresh, Restore: state()}}, ""},
	} {
		t.Run(says, func(t *testing.T) {
			if left := remainingWork(&c.out, now); !strings.Contains(left, c.left) || (left == "") != (c.left == "") {
				t.Errorf("left is %q, want %q", left, c.left)
			}
		})
	}
}
