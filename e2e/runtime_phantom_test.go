//go:build slow

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestAPhantomKeepsItsAddressUntilItsSandboxHasStopped(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		n := s.realNode(t, "worker-1", flavour)
		web := n.up(t, "web-0", s.runtimeNetwork(t, "blue", "10.1.0.0/24"))
		n.sees(t, web.id, "Ready")
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "reservation 10.1.0.1", "InUse SandboxReady")

		web.forget(t)
		out = s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod", "reservation 10.1.0.1", "Held PhantomPod")
		n.answers(t, "10.1.0.1", true)
		s.lost(t, before)

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), web.id))
		n.answers(t, "10.1.0.1", false)
		s.lost(t, before) // its DEL was lost
		n.sees(t, web.id, "Stopped")
		out = s.run(t)
		out.exits(t, 0)
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
	})
}
