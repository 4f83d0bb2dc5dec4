//go:build slow

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// whereabouts takes an entry over by pod name and interface. The newcomer here asks
// for another network first, so that its interface on the phantom's is net2.
func TestAPhantomKeepsItsAddressBesideASuccessorWithAnEntryOfItsOwn(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		n := s.realNode(t, "worker-1", flavour)
		blue, red := s.runtimeNetwork(t, "blue", "10.1.0.0/24"), s.runtimeNetwork(t, "red", "10.2.0.0/24")
		phantom := n.up(t, "web-0", blue)
		n.sees(t, phantom.id, "Ready")
		phantom.forget(t)

		web := n.object(t, "web-0", red, blue)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod", "reservation 10.1.0.1", "Held PhantomPod")
		s.lost(t, before) // the newcomer is Pending, and has no sandbox

		web.id = try(n.RunPod(t.Context(), web.spec())).must(t)
		n.sees(t, web.id, "Ready")
		before = s.contents(t)
		equal(t, "entries and reservations", len(before), 6)
		equal(t, "the phantom's entry", before["10.1.0.0-24 1"], written(phantom, "net1", "default/web-0"))
		equal(t, "the newcomer's entry", before["10.1.0.0-24 2"], written(web, "net2", "default/web-0"))
		beside := func() {
			t.Helper()
			out := s.run(t)
			out.exits(t, 0)
			out.expect(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod", "reservation 10.1.0.1", "Held PhantomPod",
				"10.1.0.0-24 10.1.0.2", "InUse SandboxReady", "reservation 10.1.0.2", "InUse SandboxReady",
				"10.2.0.0-24 10.2.0.1", "InUse SandboxReady", "reservation 10.2.0.1", "InUse SandboxReady")
			equal(t, "conflicts", len(out.found("Conflict")), 0)
			s.lost(t, before)
			n.answers(t, "10.1.0.1", true)
			n.answers(t, "10.1.0.2", true)
		}
		beside()
		web.Pod = try(s.SetRunning(t.Context(), web.Pod)).must(t)
		beside()

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), phantom.id))
		n.answers(t, "10.1.0.1", false)
		s.lost(t, before) // its DEL was lost
		n.sees(t, phantom.id, "Stopped")
		out = s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodReplaced proven", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady",
			"10.2.0.0-24 10.2.0.1", "InUse SandboxReady")
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
		n.answers(t, "10.1.0.2", true)
		n.answers(t, "10.2.0.1", true)
		s.product(t, "check").exits(t, 0)
	})
}

// written is a pod's entry as contents have it.
func written(p *livePod, ifName, podRef string) string {
	return `{"id":"` + p.id + `","ifname":"` + ifName + `","podref":"` + podRef + `"}`
}
