//go:build cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnEvictedPodLosesItsAddressAlthoughItStaysInTheAPI(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	worker, pods := i.cluster.Worker("worker-1"), i.Client().CoreV1().Pods("default")
	check(t, worker.LoseDELs(true))
	asks := i.start(t, workload("asks", "worker-2", "blue"))
	late := i.start(t, stubborn("late", "worker-1", 15))
	big := workload("big", "worker-1", "blue")
	big.Spec.Containers[0].Args = []string{"-stubborn", "-fill", "/fill"} // kubelet says Succeeded of one that ends well
	big.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	big = i.start(t, big)
	equal(t, "the addresses", addressOn(t, late, "net1").String()+" "+addressOn(t, big, "net1").String(), "10.1.0.2 10.1.0.3")
	v := i.leader(t)

	try(pods.Patch(t.Context(), late.Name, types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})).must(t)
	began := time.Now()
	for _, p := range []*corev1.Pod{late, big} {
		address := addressOn(t, p, "net1")
		failed := p
		eventuallyWithin(t, 90*time.Second, p.Name+" to fail", func() bool {
			before := i.contents(t)
			if worker.Answers(t, address) && before["10.1.0.0-24 "+strings.TrimPrefix(address.String(), "10.1.0.")] == "" {
				t.Fatalf("%s was freed while it was configured", address)
			}
			failed = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
			return failed.Status.Phase == corev1.PodFailed
		})
		t.Logf("%s failed after %s: %s", p.Name, time.Since(began).Round(time.Second), failed.Status.Reason)
		equal(t, "it is configured", worker.Answers(t, address), false)
	}
	i.freed(t, soon, "10.1.0.0-24", "2")
	i.freed(t, soon, "10.1.0.0-24", "3")
	v.is(t, `ip_reconcile_released_total{reason="PodFinished"}`, 4)
	for name, reason := range map[string]string{late.Name: "DeadlineExceeded", big.Name: "Evicted"} {
		i.event(t, reason, "Pod", name)
		equal(t, "the phase of "+name, try(pods.Get(t.Context(), name, metav1.GetOptions{})).must(t).Status.Phase, corev1.PodFailed)
	}

	next := i.start(t, workload("next", "worker-2", "blue"))
	equal(t, "the next pod's address", addressOn(t, next, "net1"), addressOn(t, late, "net1"))
	name, err := i.cluster.Asked(t.Context(), asks, addressOn(t, next, "net1"))
	check(t, err)
	equal(t, "who answers at the address", name, next.Name)
	i.asPod(t, "check").exits(t, 0)
}
