//go:build cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestARebootFreesWhatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	worker := i.cluster.Worker("worker-2")
	check(t, worker.LoseDELs(true))
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	back, lost := i.start(t, workload("back", "worker-2", "blue")), i.start(t, workload("lost", "worker-2", "blue"))
	address, before := addressOn(t, back, "net1"), i.sandbox(t, back)
	equal(t, "the address", address.String(), "10.1.0.2")
	i.waitReported(t, back, lost)
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "InUse SandboxReady", "10.1.0.0-24 10.1.0.3", "InUse SandboxReady")
	entries := i.contents(t)

	worker.PowerOff()
	i.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/worker-2")
	check(t, i.DeletePod(t.Context(), lost, 0))
	i.lost(t, entries)
	check(t, worker.Boot(t.Context()))
	took := i.freed(t, time.Minute, "10.1.0.0-24", "3")
	t.Logf("freed %s after the node was on again", took.Round(time.Second))

	var id string
	eventuallyWithin(t, time.Minute, "the other pod to be back", func() bool {
		var err error
		id, err = worker.SandboxOf(t.Context(), string(back.UID))
		return err == nil && id != before
	})
	eventually(t, "its entry to be its new sandbox's", func() bool { return strings.Contains(i.contents(t)["10.1.0.0-24 2"], id) })
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
