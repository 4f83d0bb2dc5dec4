package podstate_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A node whose clock is an hour ahead would else keep what is wrong with its sandboxes from
// being found for an hour.
func TestANodesClockThatIsAheadDoesNotKeepItsSandboxesYoung(t *testing.T) {
	s := v1alpha1.Sandbox{ID: "a", State: v1alpha1.SandboxReady, CreatedAt: at(time.Hour)}
	r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: at(time.Hour), Sandboxes: []v1alpha1.Sandbox{s}}, Written: noon}
	equal(t, "settled a minute after it was written", r.Settled(&s, noon.Add(time.Minute)), false)
	equal(t, "settled when it was written longer ago", r.Settled(&s, noon.Add(time.Minute+time.Second)), true)
	r.Written = time.Time{}
	equal(t, "settled where it is not known when it was written", r.Settled(&s, noon.Add(30*time.Minute)), false)
}
