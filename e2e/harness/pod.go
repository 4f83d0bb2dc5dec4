package harness

import (
	"context"
	"encoding/json"
	"strings"

	current "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NetworkStatus is an entry of the annotation that Multus writes when all attachments of a pod exist.
type NetworkStatus struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	Default   bool     `json:"default,omitempty"`
}

const (
	networksAnnotation      = "k8s.v1.cni.cncf.io/networks"
	networkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status"
)

// CreatePod creates a pod that is bound to a node (if any) and requests networks.
func (c *ControlPlane) CreatePod(ctx context.Context, namespace, name, node string, networks ...Network) (*corev1.Pod,
	error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}},
		},
	}
	if len(networks) > 0 {
		var asked []string
		for _, n := range networks {
			asked = append(asked, n.Namespace+"/"+n.Name)
		}
		pod.Annotations = map[string]string{networksAnnotation: strings.Join(asked, ",")}
	}
	return c.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// SetRunning reports a pod as kubelet and Multus do: running and ready, with a network status (none without entries).
// The first entry of the default network gives the pod its podIPs.
func (c *ControlPlane) SetRunning(ctx context.Context, pod *corev1.Pod, networks ...NetworkStatus) (*corev1.Pod,
	error) {
	if len(networks) > 0 {
		annotation, err := json.Marshal(networks)
		if err != nil {
			return nil, err
		}
		patch := map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{networkStatusAnnotation: string(annotation)}}}
		if pod, err = c.patchPod(ctx, pod, patch); err != nil {
			return nil, err
		}
	}
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase:     corev1.PodRunning,
		StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue,
			LastTransitionTime: now})
	}
	for _, n := range networks {
		if n.Default && status.PodIP == "" && len(n.IPs) > 0 {
			status.PodIP = n.IPs[0]
			for _, ip := range n.IPs {
				status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
			}
		}
	}
	return c.patchPod(ctx, pod, map[string]any{"status": status}, "status")
}

func (c *ControlPlane) patchPod(ctx context.Context, pod *corev1.Pod, patch map[string]any,
	subresource ...string) (*corev1.Pod, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{}, subresource...)
}

// DeletePod deletes a pod object and nothing else. Without a kubelet nobody ends a graceful deletion: a pod that has a
// node and is not finished keeps its deletionTimestamp until it is deleted again with a grace of 0, which removes the
// object at once (kubectl's --force).
func (c *ControlPlane) DeletePod(ctx context.Context, pod *corev1.Pod, graceSeconds int64) error {
	options := *metav1.NewPreconditionDeleteOptions(string(pod.UID))
	options.GracePeriodSeconds = &graceSeconds
	return c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
}

// Status is what Multus reports of an attachment.
func (a Attachment) Status(result *current.Result) NetworkStatus {
	s := NetworkStatus{Name: a.Network.Namespace + "/" + a.Network.Name, Interface: a.IfName}
	for _, ip := range Addresses(result) {
		s.IPs = append(s.IPs, ip.String())
	}
	if len(result.Interfaces) > 0 {
		s.MAC = result.Interfaces[0].Mac
	}
	return s
}
