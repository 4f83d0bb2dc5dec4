//go:build cluster

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubelet ends the pods of a node that shuts down, the node's agent soon after them:
// whether that one still sees it or not, the next boot proves it.
func TestAPodThatAShutdownEndsLosesItsAddressAndNotBefore(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	worker, pods := i.cluster.Worker("worker-2"), i.Client().CoreV1().Pods("default")
	check(t, worker.LoseDELs(true))
	check(t, worker.Kubelet.Stop())
	check(t, worker.MindShutdowns(40*time.Second, 15*time.Second))
	check(t, worker.StartKubelet())
	i.start(t, workload("stays", "worker-1", "blue"))
	p := i.start(t, stubborn("stubborn", "worker-2", 12))
	address := addressOn(t, p, "net1")
	equal(t, "the address", address.String(), "10.1.0.2")
	i.leader(t).is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, worker.BeginShutdown(t.Context()))
	began := time.Now()
	i.mustKubectl(t, "wait", "--for=condition=Ready=False", "--timeout=60s", "node/worker-2")
	eventuallyWithin(t, time.Minute, "it to fail", func() bool {
		before := i.contents(t)
		if worker.Answers(t, address) && before["10.1.0.0-24 2"] == "" {
			t.Fatal("it was freed while it was configured")
		}
		p = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
		return p.Status.Phase == corev1.PodFailed
	})
	t.Logf("it failed after %s: %s", time.Since(began).Round(time.Second), p.Status.Reason)
	equal(t, "it is configured", worker.Answers(t, address), false)
	seen := within(15*time.Second, time.Second, func() bool { return i.contents(t)["10.1.0.0-24 2"] == "" })
	t.Logf("freed before the agent was ended: %v", seen)

	worker.PowerOff()
	check(t, worker.Boot(t.Context()))
	t.Logf("freed %s after the next boot", i.freed(t, time.Minute, "10.1.0.0-24", "2").Round(time.Second))
	equal(t, "the pod, which is there,", try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t).Status.Phase, corev1.PodFailed)
	next := i.start(t, workload("next", "worker-1", "blue"))
	equal(t, "the next pod's address", addressOn(t, next, "net1"), address)
	equal(t, "it is configured on the other node", worker.Answers(t, address), false)
}
