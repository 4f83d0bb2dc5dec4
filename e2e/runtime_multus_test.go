//go:build slow

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestRuntime_ThickMultus starts pods by the daemon of Multus. Its build takes minutes: `make test-runtimes` runs it.
func TestRuntime_ThickMultus(t *testing.T) {
	if !harness.OtherRuntimes() {
		t.Skip("only `make test-runtimes` runs it")
	}
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		log := try(n.UseThickMultus(t.Context())).must(t)
		check(t, s.CreateNAD(t.Context(), blue))
		live, lost := n.up(t, "live", blue), n.up(t, "lost", blue)
		for _, p := range []*livePod{live, lost} {
			contains(t, "the log of the daemon", string(try(os.ReadFile(log)).must(t)),
				`ADD starting CNI request ContainerID:"`+p.id)
		}
		r := n.sees(t, live.id, "Ready")
		for _, b := range r.Sandboxes {
			equal(t, "addresses that the report has of "+b.Name, len(b.Addresses), 1)
		}
		before := s.contents(t)
		equal(t, "its entry", before["10.1.0.0-24 1"], written(live, "net1", "default/live"))
		s.judges(t, append(of(1, "InUse SandboxReady"), of(2, "InUse SandboxReady")...)...)

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), lost.id))
		check(t, n.LoseDELs(false))
		lost.forget(t)
		n.sees(t, lost.id, "Stopped")
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, entryAndReservation(2)...)

		n.agent.stop(t)
		s.removeCRD(t, sandboxReports) // so that only the network-status speaks for the pod
		s.judges(t, of(1, "InUse AddressOnPod")...)
		check(t, n.StopPod(t.Context(), live.id))
		equal(t, "entries and reservations after DEL", len(s.contents(t)), 0)
		equal(t, "DELs by the daemon", strings.Count(string(try(os.ReadFile(log)).must(t)), "DEL starting CNI request") >= 2,
			true)
	})
}
