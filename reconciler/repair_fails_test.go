package reconciler_test

import (
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func TestARepairThatAlwaysFailsGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 999, "default/other", "box-999", false)
		s.pod("other", "o", 999)
		report := &v1alpha1.SandboxReport{}
		report.Name = "worker-1"
		for i := 1; i <= 50; i++ {
			name := fmt.Sprint("web-", i)
			s.pod(name, "u", i)
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: fmt.Sprint("box-", i), Namespace: "default", Name: name, UID: "u", State: v1alpha1.SandboxReady,
				Addresses: []v1alpha1.Address{{IP: addressOf(i).String(), IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}})
		}
		report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: "box-999", Namespace: "default", Name: "other", UID: "o", State: v1alpha1.SandboxReady})
		s.step = func(string, string) { s.heard(report) }
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.Repair = true
		out, took := run(t, r)
		t.Log(len(out.Unrepaired), took, len(s.holds))
		if len(s.holds) > 50 {
			t.Errorf("%d holds in %s, and nothing could be written", len(s.holds), took)
		}
	})
}
