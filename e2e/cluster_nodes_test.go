//go:build cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func (i *installation) playNodeLost(t *testing.T) {
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	p := i.start(t, workload("web", "worker-2", "blue"))
	address := addressOn(t, p, "net1")
	worker := i.cluster.Worker("worker-2")
	i.waitReported(t, p)
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")

	worker.Kubelet.Kill()
	worker.Kill()
	check(t, i.DeletePod(t.Context(), p, 30)) // it terminates for ever: only its kubelet can end it
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	began := time.Now()
	v.is(t, `ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`, 1)
	t.Logf("unreachable after %s", time.Since(began).Round(time.Second))
	i.answers(t, stays, address, p)
	before := i.contents(t)

	// An operator who marks a node out of service has powered it off.
	worker.PowerOff()
	eventuallyWithin(t, time.Minute, "a replica on the other node to lead", func() bool {
		v = i.leader(t)
		return v.metric(`ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`) == 1
	})
	i.checkReleased(t, before)
	i.outOfService(t, "worker-2")
	t.Logf("released %s after the taint", i.waitReleased(t, soon, "10.1.0.0-24", "2"))
	i.checkReleased(t, before, entryAndReservation(2)...)
	equal(t, "the sandbox of the other pod", i.sandbox(t, stays) != "", true)
}

func (i *installation) playNodeCutOff(t *testing.T) {
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
	i.next(t, "newcomer", "worker-1", "10.1.0.3")
	i.answers(t, stays, address, p)

	check(t, worker.Reconnect())
	began := time.Now()
	i.ends(t, worker, address)
	t.Logf("it ended %s after the node was back", time.Since(began).Round(time.Second))
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}

func (i *installation) playReboot(t *testing.T) {
	worker := i.cluster.Worker("worker-2")
	check(t, worker.LoseDELs(true))
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	back, lost := i.start(t, workload("back", "worker-2", "blue")), i.start(t, workload("lost", "worker-2", "blue"))
	address, before := addressOn(t, back, "net1"), i.sandbox(t, back)
	equal(t, "the address", address.String(), "10.1.0.2")
	i.waitReported(t, back, lost)
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "InUse SandboxReady", "10.1.0.0-24 10.1.0.3",
		"InUse SandboxReady")
	entries := i.contents(t)

	worker.PowerOff()
	i.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/worker-2")
	check(t, i.DeletePod(t.Context(), lost, 0))
	i.checkReleased(t, entries)
	check(t, worker.Boot(t.Context()))
	took := i.waitReleased(t, time.Minute, "10.1.0.0-24", "3")
	t.Logf("released %s after the node was on again", took.Round(time.Second))

	var id string
	eventuallyWithin(t, time.Minute, "the other pod to be back", func() bool {
		var err error
		id, err = worker.SandboxOf(t.Context(), string(back.UID))
		return err == nil && id != before
	})
	eventually(t, "its entry to be its new sandbox's",
		func() bool { return strings.Contains(i.contents(t)["10.1.0.0-24 2"], id) })
	eventually(t, "it to answer", func() bool {
		name, err := i.cluster.Asked(t.Context(), stays, address)
		return err == nil && name == back.Name
	})
	i.waitReported(t, stays, back)
	out := i.asPod(t, "check")
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")
	equal(t, "allocations", out.Summary.Allocations, 2)
	equal(t, "its phase", i.running(t, back.Name)[0].Status.Phase, corev1.PodRunning)
}

func (i *installation) playContainerdDown(t *testing.T) {
	asks, p := i.start(t, workload("asks", "worker-1", "blue")), i.start(t, workload("web", "worker-2", "blue"))
	address, worker := addressOn(t, p, "net1"), i.cluster.Worker("worker-2")
	check(t, worker.LoseDELs(true))
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, worker.Stop())
	began := time.Now()
	check(t, i.DeletePod(t.Context(), p, 1))
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	// Its report stays fresh for a minute. By then kubelet, which runs, has reported the node not Ready.
	v.is(t, `ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`, 1)
	t.Logf("unreachable %s after containerd was stopped", time.Since(began).Round(time.Second))
	i.next(t, "newcomer", "worker-1", "10.1.0.3")
	i.answers(t, asks, address, p)

	check(t, worker.Start(t.Context()))
	i.ends(t, worker, address)
	t.Logf("released %s after it ended", i.waitReleased(t, soon, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}

func (i *installation) playHungTermination(t *testing.T) {
	i.start(t, workload("stays", "worker-1", "blue"))
	p, blocker := i.start(t, workload("web", "worker-2", "blue")), i.NewCNIBlocker()
	address, id, worker := addressOn(t, p, "net1"), i.sandbox(t, p), i.cluster.Worker("worker-2")
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)
	i.cutInTheMiddle(t, worker, blocker, func() { check(t, i.DeletePod(t.Context(), p, 1)) })
	before := i.contents(t)
	equal(t, "whose DEL began", blocker.Waiting()[0], id)
	equal(t, "the address is configured", worker.Answers(t, address), true)

	check(t, worker.Start(t.Context()))
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	i.checkReleased(t, before)
	i.next(t, "newcomer", "worker-1", "10.1.0.3")
	equal(t, "the address is configured", worker.Answers(t, address), true)

	check(t, blocker.Unblock())
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "2").Round(time.Second))
	i.asPod(t, "check").exits(t, 0)
}

// cutInTheMiddle kills containerd during the first DEL after an action. The blocker holds that DEL, and those of the
// next containerd.
func (i *installation) cutInTheMiddle(t *testing.T, worker *harness.Worker, blocker harness.CNIBlocker, do func()) {
	t.Helper()
	check(t, blocker.Block())
	t.Cleanup(func() { blocker.Unblock() })
	check(t, worker.HoldDELs(blocker))
	do()
	eventually(t, "a DEL to begin", func() bool { return len(blocker.Waiting()) == 1 })
	worker.Kill()
}
