//go:build cluster

package e2e

import (
	"testing"
	"time"
)

func TestANodeThatIsLostKeepsItsAddressesUntilItIsOutOfService(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	p := i.start(t, workload("web", "worker-2", "blue"))
	address := addressOn(t, p, "net1")
	worker := i.cluster.Worker("worker-2")
	i.waitReported(t, p)
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")

	worker.Kubelet.Kill()
	worker.Kill()
	check(t, i.DeletePod(t.Context(), p, 30)) // for ever: only its kubelet can say that it ended
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	began := time.Now()
	eventuallyWithin(t, 2*time.Minute, "its node to be unreachable", func() bool {
		return v.metric(`ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`) == 1
	})
	t.Logf("unreachable after %s", time.Since(began).Round(time.Second))
	name, err := i.cluster.Asked(t.Context(), stays, address)
	check(t, err)
	equal(t, "who answers at the address", name, p.Name)
	before := i.contents(t)

	// Who says that a node is out of service has seen to it that it is off.
	worker.PowerOff()
	eventuallyWithin(t, time.Minute, "a replica on the other node to lead", func() bool {
		v = i.leader(t)
		return v.metric(`ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`) == 1
	})
	i.lost(t, before)
	i.outOfService(t, "worker-2")
	t.Logf("freed %s after the taint", i.freed(t, soon, "10.1.0.0-24", "2"))
	i.lost(t, before, entryAndReservation(2)...)
	equal(t, "the sandbox of the other pod", i.sandbox(t, stays) != "", true)
}
