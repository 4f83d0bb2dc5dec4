//go:build cluster

package e2e

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodThatIsDeletedByForceKeepsItsAddressWhileItRuns(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	p := i.start(t, stubborn("stubborn", "worker-1", 600))
	address, id := addressOn(t, p, "net1"), i.sandbox(t, p)
	check(t, i.cluster.Worker("worker-1").LoseDELs(true))
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)

	check(t, i.DeletePod(t.Context(), p, 600))
	i.killing(t, p)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	check(t, i.DeletePod(t.Context(), p, 0))
	if _, err := i.Client().CoreV1().Pods("default").Get(t.Context(), p.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the API knows the pod: %v", err)
	}
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	equal(t, "its sandbox", i.sandbox(t, p), id)
	newcomer := i.start(t, workload("newcomer", "worker-2", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.2")
	name, err := i.cluster.Asked(t.Context(), newcomer, address)
	check(t, err)
	equal(t, "who answers at the address", name, p.Name)

	worker := i.cluster.Worker("worker-1")
	check(t, worker.KillContainers(t.Context(), id))
	eventually(t, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, soon, "10.1.0.0-24", "1"))
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
	equal(t, "the event", i.event(t, "IPAddressGarbageCollected", "IPPool", "10.1.0.0-24"), "successful cleanup of IP address [10.1.0.1] from network 10.1.0.0/24: PodGone (rule gone-ended)")
	i.asPod(t, "check").exits(t, 0)
}
