//go:build cluster

package e2e

import (
	"testing"
	"time"
)

func TestANodeThatIsCutOffKeepsItsAddressesUntilItIsBack(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	p := i.start(t, workload("web", "worker-2", "blue"))
	address := addressOn(t, p, "net1")
	worker := i.cluster.Worker("worker-2")
	check(t, worker.LoseDELs(true))
	i.waitReported(t, p)
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")

	check(t, worker.CutOff())
	i.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/worker-2")
	check(t, i.DeletePod(t.Context(), p, 0))
	var v *server
	eventuallyWithin(t, 2*time.Minute, "its node to be unreachable", func() bool {
		v = i.leader(t)
		return v.metric(`ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`) == 1
	})
	newcomer := i.start(t, workload("newcomer", "worker-1", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.3")
	name, err := i.cluster.Asked(t.Context(), stays, address)
	check(t, err)
	equal(t, "who answers at the address", name, p.Name)

	check(t, worker.Reconnect())
	began := time.Now()
	eventuallyWithin(t, time.Minute, "kubelet to end the pod", func() bool { return !worker.Answers(t, address) })
	t.Logf("it ended %s after the node was back", time.Since(began).Round(time.Second))
	t.Logf("freed %s after that", i.freed(t, 30*time.Second, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}
