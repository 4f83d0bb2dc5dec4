//go:build cluster

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kubelets before 1.25 said so while containers ran, and any client may. Today's kubelet
// takes it back sooner or later, or ends the pod when it starts: this one hangs till then.
func TestAPodThatIsReportedFailedKeepsItsAddressWhileItRuns(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	p := i.start(t, workload("web", "worker-1", "blue"))
	address, worker := addressOn(t, p, "net1"), i.cluster.Worker("worker-1")
	check(t, worker.LoseDELs(true))
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)

	check(t, worker.Kubelet.Freeze())
	pods := i.Client().CoreV1().Pods("default")
	p = try(pods.Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"status":{"phase":"Failed","reason":"SaidSo"}}`), metav1.PatchOptions{}, "status")).must(t)
	for _, c := range p.Status.Conditions {
		equal(t, string(c.Type), c.Status, corev1.ConditionTrue)
	}
	v.is(t, `ip_reconcile_allocations{reason="TerminalButRunning",verdict="Held"}`, 1)
	newcomer := i.start(t, workload("newcomer", "worker-2", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.2")
	name, err := i.cluster.Asked(t.Context(), newcomer, address)
	check(t, err)
	equal(t, "who answers at the address", name, p.Name)

	worker.Kubelet.Kill()
	check(t, worker.StartKubelet())
	eventuallyWithin(t, time.Minute, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, soon, "10.1.0.0-24", "1").Round(time.Second))
	v.is(t, `ip_reconcile_released_total{reason="PodFinished"}`, 2)
	p = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
	equal(t, "the pod, which is there,", p.Status.Phase, corev1.PodFailed)
	next := i.start(t, workload("next", "worker-2", "blue"))
	equal(t, "the next pod's address", addressOn(t, next, "net1"), address)
	i.asPod(t, "check").exits(t, 0)
}
