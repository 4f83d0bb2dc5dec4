//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Velero creates pods with the network-status of the pods that it saved, and brings the pools of another cluster.
func TestFindings_OfARestoredBackup(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	agent := s.agent(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	leaked := s.up(t, "worker-1", "leaked", blue).leak(t)
	broken := s.up(t, "worker-1", "broken", blue)
	broken.del(t) // only the request of its network remains
	broken.attachments, broken.status = nil, nil
	broken.annotate(t, statusAnnotation, `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`)
	foreign := map[string]any{}
	for i := range 25 {
		foreign[fmt.Sprint(i+1)] = entry(fmt.Sprint("elsewhere/web-", i), fmt.Sprintf("%064x", i+1))
	}
	s.pool(t, "10.7.0.0-24", "10.7.0.0/24", foreign)
	sandbox := broken.listed(v1alpha1.SandboxReady)
	sandbox.CreatedAt = metav1.NewTime(time.Now().Add(-time.Hour))
	agent.writeReport(t, leaked.gone(), sandbox)

	copied := fmt.Sprintf(`[{"name":"default/blue","interface":"net1","ips":[%q]}]`, leaked.ips[0])
	restored := &pod{s: s, Pod: try(s.Client().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "restored", Annotations: map[string]string{statusAnnotation: copied}},
		Spec: corev1.PodSpec{NodeName: "worker-1",
			Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
	}, metav1.CreateOptions{})).must(t)}

	out := s.product(t, "check", "--all")
	out.expect(t, at(leaked), "Stale PodGone proven")
	for kind, want := range map[string]string{
		"NotAttached": "default/broken runs on worker-1 without the network default/blue that it requests: " +
			"its network-status, its sandbox and the pools do not have it",
		"ForeignPool": "all 25 allocations of pool kube-system/10.7.0.0-24 are of pods and sandboxes that this cluster " +
			"does not have: it may come from a backup of another cluster",
	} {
		if found := out.found(kind); len(found) != 1 || found[0].Message != want {
			t.Errorf("%s: got %+v", kind, found)
		}
	}

	// As Multus writes it after an ADD: the address counts, whatever the phase.
	restored.change(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		statusAnnotation: copied[:len(copied)-2] + `,"mac":"02:00:00:00:00:01"}]`}}}, "status")
	s.product(t, "check", "--all").expect(t, at(leaked), "Held ClaimedByOther")
}
