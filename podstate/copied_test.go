package podstate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Backup tools create a pod with the network-status of the pod that they saved. Only what its creator alone wrote, with
// the rest of the pod, is known to be such a copy.
func TestNetworkStatus_Copied(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	const status = `"f:k8s.v1.cni.cncf.io/network-status":{}`
	manager := func(name, subresource string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(created.Add(after))
		return metav1.ManagedFieldsEntry{Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &at, FieldsType: "FieldsV1", Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	both := `{"f:metadata":{"f:annotations":{` + status + `}},"f:spec":{"f:containers":{}}}`
	only := `{"f:metadata":{"f:annotations":{` + status + `}}}`
	kubelet := manager("kubelet", "status", time.Second, `{"f:status":{"f:conditions":{}}}`)
	velero := manager("velero-server", "", 0, both)
	for _, c := range []struct {
		name     string
		managers []metav1.ManagedFieldsEntry
		edit     func(*corev1.Pod)
		want     podstate.NetworkStatus
	}{
		{"created with it", []metav1.ManagedFieldsEntry{velero, kubelet}, nil, podstate.StatusMissing},
		{"Multus wrote it since", []metav1.ManagedFieldsEntry{velero, manager("multus", "status", time.Second, only)}, nil,
			podstate.StatusReadable},
		{"Multus wrote it since, and is listed first", []metav1.ManagedFieldsEntry{
			manager("multus", "status", time.Second, only), velero}, nil, podstate.StatusReadable},
		{"Multus wrote it in the same second", []metav1.ManagedFieldsEntry{
			manager("kube-controller-manager", "", 0, `{"f:spec":{"f:containers":{}}}`), manager("multus", "status", 0, only)},
			nil, podstate.StatusReadable},
		{"somebody patched it in the same second", []metav1.ManagedFieldsEntry{manager("any", "", 0, only)}, nil,
			podstate.StatusReadable},
		{"its creator wrote it later", []metav1.ManagedFieldsEntry{manager("any", "", time.Second, both)}, nil,
			podstate.StatusReadable},
		{"without managedFields", nil, nil, podstate.StatusReadable},
		{"without times", []metav1.ManagedFieldsEntry{{Manager: "any", FieldsV1: metav1.NewFieldsV1(both)}}, nil,
			podstate.StatusReadable},
		{"without fields", []metav1.ManagedFieldsEntry{{Manager: "any", Time: &created}}, nil, podstate.StatusReadable},
		{"the pod has an address", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.Status.PodIP = "10.244.0.9" }, podstate.StatusReadable},
		{"the pod has addresses", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.9"}} }, podstate.StatusReadable},
		{"its sandbox is ready", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}, podstate.StatusReadable},
		{"its sandbox is not ready", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
		}, podstate.StatusMissing},
		{"the pod runs", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
			podstate.StatusReadable},
		{"the pod is being deleted", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.DeletionTimestamp = &created }, podstate.StatusReadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", CreationTimestamp: created,
				ManagedFields: c.managers, Annotations: map[string]string{
					"k8s.v1.cni.cncf.io/network-status": `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`}},
				Spec:   corev1.PodSpec{NodeName: "worker-1"},
				Status: corev1.PodStatus{Phase: corev1.PodPending}}
			if c.edit != nil {
				c.edit(o)
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			var listed *podstate.Pod
			list := fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}`, text)
			if _, err := podstate.DecodePods(list, func(p *podstate.Pod) { listed = p }); err != nil {
				t.Fatal(err)
			}
			for how, p := range map[string]*podstate.Pod{"read": podstate.ReadPod(o), "listed": listed} {
				if p.Status != c.want || (len(p.Interfaces) == 1) != (c.want == podstate.StatusReadable) {
					t.Errorf("%s: got %s with %v, want %s", how, p.Status, p.Interfaces, c.want)
				}
			}
		})
	}
}

func TestPod_Unattached(t *testing.T) {
	for _, c := range []struct {
		name, networks, status string
		want                   int
	}{
		{"all are there", "wb,red", `[{"name":"default/wb"},{"name":"default/red"}]`, 0},
		{"one is missing", "wb,red", `[{"name":"cbr0","default":true},{"name":"default/red"}]`, 1},
		{"both are missing", "wb, tenant/red@net2", `[{"name":"cbr0","default":true},{"name":"default/red"}]`, 2},
		{"an interface without a network", "wb", `[{"interface":"net1"}]`, 0},
		{"a default network without a name", "wb", `[{"default":true}]`, 1},
		{"no status", "wb", ``, 0},
		{"a status that cannot be read", "wb", `[null]`, 0},
		{"a selection that cannot be read", "{", `[{"name":"cbr0","default":true}]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podstate.ReadPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Annotations: map[string]string{
				"k8s.v1.cni.cncf.io/networks": c.networks, "k8s.v1.cni.cncf.io/network-status": c.status}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning}})
			if len(p.Unattached) != c.want {
				t.Errorf("got %v, want %d", p.Unattached, c.want)
			}
		})
	}
}
