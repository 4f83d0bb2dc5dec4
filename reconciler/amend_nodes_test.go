package reconciler

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What was judged before the change must not be of the past later, though no report has
// become fresh or stale.
func TestAnAmendedIndexJudgesNodesByTheReportsThatThereAreNow(t *testing.T) {
	newMachine := v1alpha1.Machine{SystemUUID: "board of the new one", MachineID: "disk of the new one"}
	for _, c := range []struct {
		says        string
		scene       part
		report, now part
	}{
		{"the agent of another machine has written, and not vouched for it yet",
			all(usualPool, aNode("worker-1"), freshReport("worker-1"), aNode("worker-2", booted("boot-2"), onMachine(newMachine))),
			staleReport("worker-2"), staleReport("worker-2", bootID("boot-2"), byMachine(newMachine))},
		{"the agent of a missing node is heard again, and has not vouched for its report",
			all(aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", time.Hour), aNode("worker-1"), freshReport("worker-1"),
				seenWhile(aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", 0), aNode("worker-2"), web(onNode("worker-2")))),
			staleReport("worker-2", heardAt(now.Add(-time.Hour)), unvouched), staleReport("worker-2", heardAt(now.Add(-time.Second)), unvouched)},
	} {
		t.Run(c.says, func(t *testing.T) {
			o := observe(c.scene, c.report)
			x := judge.NewIndex(o.Observation, o.past, judge.Policy{})
			x.Judge()
			after := observe(c.now).Reports[0]
			x.Amend(&judge.Live{Reports: map[string]*podstate.Report{"worker-2": after}})
			built := judged(observe(c.scene, c.now), judge.Policy{})
			if got, want := account(x.Judge()), account(built); !slices.Equal(got, want) {
				t.Errorf("amended %v\nbuilt   %v", got, want)
			}
		})
	}
}
