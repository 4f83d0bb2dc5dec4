package podstate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Namespaces get other names, and what is not read is not written.
func TestReducedAnnotations(t *testing.T) {
	got := podstate.ReducedAnnotations(map[string]string{
		"k8s.v1.cni.cncf.io/network-status": `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5","hunter2"],` +
			`"mac":"hunter2","default":true},"hunter2",{"name":"cbr0"}]`,
		"k8s.v1.cni.cncf.io/networks-status": "hunter2",
		"k8s.v1.cni.cncf.io/networks":        `[{"name":"wb","cni-args":{"a":"hunter2"}},{"name":"x","namespace":"b"}]`,
		"v1.multus-cni.io/default-network":   "hunter2 ",
		"kubernetes.io/config.mirror":        "uid", "other": "hunter2",
	}, "tenant", func(namespace string) string { return "ns-" + namespace })
	want := map[string]string{
		"k8s.v1.cni.cncf.io/network-status": `[{"name":"ns-default/wb","interface":"net1","default":true,` +
			`"ips":["10.0.0.5","unreadable"]},null,{"name":"cbr0"}]`,
		"k8s.v1.cni.cncf.io/networks-status": "[unreadable",
		"k8s.v1.cni.cncf.io/networks":        `[{"namespace":"ns-tenant","name":"wb"},{"namespace":"ns-b","name":"x"}]`,
		"v1.multus-cni.io/default-network":   `[{"namespace":"ns-kube-system","name":"hunter2"}]`,
		"kubernetes.io/config.mirror":        "uid",
	}
	equal(t, "annotations", len(got), len(want))
	for name, text := range want {
		equal(t, name, got[name], text)
	}
}

// Only a pod that may be a copy of another one needs its managedFields.
func TestReducedPod(t *testing.T) {
	for phase, isKept := range map[corev1.PodPhase]bool{corev1.PodPending: true, corev1.PodRunning: false} {
		o := pod(status(`[{"name":"default/wb","ips":["10.0.0.5"]}]`), func(o *corev1.Pod) {
			o.Status = corev1.PodStatus{Phase: phase}
			o.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "hunter2"}}
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "velero", Time: atPtr(-time.Hour),
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}},` +
					`"f:spec":{"f:containers":{}}}`)}}
		})
		text, err := json.Marshal(o)
		check(t, err)
		reduced, err := podstate.ReducedPod(text)
		check(t, err)
		equal(t, "managedFields of a pod that is "+string(phase), strings.Contains(string(reduced), "managedFields"), isKept)
		equal(t, "the environment", strings.Contains(string(reduced), "hunter2"), false)
		again := &corev1.Pod{}
		check(t, json.Unmarshal(reduced, again))
		equal(t, "the network-status", podstate.ReadPod(again).Status, podstate.ReadPod(o).Status)
	}
}
