//go:build cluster

package e2e

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestAPodDeletedWhileContainerdIsDownKeepsItsAddressUntilItHasEnded(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	asks, p := i.start(t, workload("asks", "worker-1", "blue")), i.start(t, workload("web", "worker-2", "blue"))
	address, worker := addressOn(t, p, "net1"), i.cluster.Worker("worker-2")
	check(t, worker.LoseDELs(true))
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, worker.Stop())
	began := time.Now()
	check(t, i.DeletePod(t.Context(), p, 1))
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	// Its report counts for a minute, and then kubelet, which lives, has said that the
	// node is not ready.
	eventuallyWithin(t, 2*time.Minute, "its node to be unreachable", func() bool {
		return v.metric(`ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`) == 1
	})
	t.Logf("unreachable %s after containerd was stopped", time.Since(began).Round(time.Second))
	newcomer := i.start(t, workload("newcomer", "worker-1", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.3")
	name, err := i.cluster.Asked(t.Context(), asks, address)
	check(t, err)
	equal(t, "who answers at the address", name, p.Name)

	check(t, worker.Start(t.Context()))
	eventuallyWithin(t, time.Minute, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after it ended", i.freed(t, 30*time.Second, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}

func TestAPodWhoseTerminationHangsKeepsItsAddressHoweverLongItIsOverdue(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	i.start(t, workload("stays", "worker-1", "blue"))
	p, blocker := i.start(t, workload("web", "worker-2", "blue")), i.NewCNIBlocker()
	address, id, worker := addressOn(t, p, "net1"), i.sandbox(t, p), i.cluster.Worker("worker-2")
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)
	i.cutInTheMiddle(t, worker, blocker, func() { check(t, i.DeletePod(t.Context(), p, 1)) })
	began, before := time.Now(), i.contents(t)
	equal(t, "whose DEL began", blocker.Waiting()[0], id)
	equal(t, "the address is configured", worker.Answers(t, address), true)

	check(t, worker.Start(t.Context()))
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	i.lost(t, before)
	newcomer := i.start(t, workload("newcomer", "worker-1", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.3")
	eventuallyWithin(t, 6*time.Minute, "the pod to be overdue", func() bool {
		return v.metric(`ip_reconcile_allocations{reason="StuckTerminating",verdict="Held"}`) == 1
	})
	t.Logf("overdue %s after it was deleted", time.Since(began).Round(time.Second))
	equal(t, "the address is configured", worker.Answers(t, address), true)

	check(t, blocker.Unblock())
	eventuallyWithin(t, 3*time.Minute, "the address to be off the wire", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, 30*time.Second, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}

// cutInTheMiddle kills containerd in the middle of the first DEL that something brings
// about. Its DELs wait at the blocker, and the next containerd's too.
func (i *installation) cutInTheMiddle(t *testing.T, worker *harness.Worker, blocker harness.CNIBlocker, do func()) {
	t.Helper()
	check(t, blocker.Block())
	t.Cleanup(func() { blocker.Unblock() })
	check(t, worker.HoldDELs(blocker))
	do()
	eventually(t, "a DEL to begin", func() bool { return len(blocker.Waiting()) == 1 })
	worker.Kill()
}
