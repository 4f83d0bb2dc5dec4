//go:build cluster

package e2e

import (
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Kubelet removes a stopped sandbox soon, unless it hangs just then.
func TestASandboxThatIsStoppedLosesItsAddressAlthoughItStaysListed(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	asks, blocker := i.start(t, workload("asks", "worker-2", "blue")), i.NewCNIBlocker()
	p := i.start(t, workload("web", "worker-1", "blue"))
	address, id := addressOn(t, p, "net1"), i.sandbox(t, p)
	worker := i.cluster.Worker("worker-1")
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, blocker.Block())
	t.Cleanup(func() { blocker.Unblock() })
	check(t, worker.HoldDELs(blocker))
	check(t, i.DeletePod(t.Context(), p, 1))
	eventually(t, "its DEL to begin", func() bool { return len(blocker.Waiting()) == 1 })
	equal(t, "whose DEL began", blocker.Waiting()[0], id)
	check(t, worker.Kubelet.Freeze())
	check(t, i.DeletePod(t.Context(), p, 0))
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	equal(t, "the address is configured", worker.Answers(t, address), true)
	newcomer := i.start(t, workload("newcomer", "worker-2", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.3")

	check(t, blocker.Unblock())
	eventually(t, "the address to be off the wire", func() bool { return !worker.Answers(t, address) })
	// Containerd has no event for the end of a network: the agent inspects the node every 10 s.
	t.Logf("freed %s after that", i.freed(t, 10*time.Second+soon, "10.1.0.0-24", "2").Round(time.Second))
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
	state := try(worker.Status(t.Context(), id)).must(t).Status.State
	equal(t, "the state of its sandbox, which is still listed", state, cri.PodSandboxState_SANDBOX_NOTREADY)

	next := i.start(t, workload("next", "worker-2", "blue"))
	equal(t, "the next pod's address", addressOn(t, next, "net1"), address)
	name, err := i.cluster.Asked(t.Context(), asks, address)
	check(t, err)
	equal(t, "who answers at the address", name, next.Name)
	before := i.contents(t)
	check(t, worker.Kubelet.Thaw())
	eventuallyWithin(t, 3*time.Minute, "kubelet to remove the sandbox", func() bool { // it collects them once a minute
		_, err := worker.Status(t.Context(), id)
		return err != nil
	})
	i.lost(t, before)
	i.asPod(t, "check").exits(t, 0)
}
