package judgetest

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// PodEdit changes a pod before it is read.
type PodEdit func(*corev1.Pod)

// Pod adds default/<name>: on worker-1, Running for an hour, with a readable network-status
// that has the default network's address and no other.
func Pod(name string, edits ...PodEdit) Part {
	return func(o *Observed) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: UsualUID,
				CreationTimestamp: metav1.NewTime(Now.Add(-time.Hour))},
			Spec: corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "app",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		}
		NetworkStatus(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`)(p)
		for _, e := range edits {
			e(p)
		}
		read := podstate.ReadPod(p)
		o.Pods[read.NamespacedName] = read
		o.store("pods", read.NamespacedName, p)
	}
}

// UsualPod adds default/web-0, the owner of UsualAllocation.
func UsualPod(edits ...PodEdit) Part { return Pod("web-0", edits...) }

func UID(u string) PodEdit             { return func(p *corev1.Pod) { p.UID = types.UID(u) } }
func Phase(ph corev1.PodPhase) PodEdit { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func OnNode(n string) PodEdit          { return func(p *corev1.Pod) { p.Spec.NodeName = n } }

// NetworkStatus is the text of the network-status annotation; it replaces all annotations.
func NetworkStatus(text string) PodEdit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": text} }
}

func NoNetworkStatus(p *corev1.Pod) { p.Annotations = nil }

// Carrying puts the address on net1, attached by default/wb.
func Carrying(ip string) PodEdit { return CarryingOn("default/wb", "net1", ip) }

// CarryingOn puts the address on an interface attached by network, the
// <namespace>/<name> of a NetworkAttachmentDefinition.
func CarryingOn(network, ifName, ip string) PodEdit {
	return NetworkStatus(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{`+
		`"name":%q,"interface":%q,"ips":[%q]}]`, network, ifName, ip))
}

// Requesting has the pod request networks by its annotation.
func Requesting(networks string) PodEdit {
	return func(p *corev1.Pod) {
		annotations := map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
		maps.Copy(annotations, p.Annotations)
		p.Annotations = annotations
	}
}

func PodIPs(ips ...string) PodEdit {
	return func(p *corev1.Pod) {
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// DeletedAgo deletes the pod with a grace period that ended so long ago; a negative duration is the rest of it.
func DeletedAgo(d time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		t := metav1.NewTime(Now.Add(-d))
		p.DeletionTimestamp = &t
	}
}

func GracePeriod(d time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		s := int64(d.Seconds())
		p.Spec.TerminationGracePeriodSeconds = &s
	}
}

// StoppedByKubelet leaves the pod as kubelet does: containers terminated, not Ready.
func StoppedByKubelet(ago time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(Now.Add(-ago))}}
	}
}

// ContainerWithoutStatus adds a container of which kubelet reports nothing.
func ContainerWithoutStatus(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
}

func CreatedLongAgo(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(Now.Add(-100 * time.Hour)) }

// MirrorOf makes it the mirror pod of a static pod whose UID at the runtime is uid.
func MirrorOf(uid string) PodEdit {
	return func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = uid }
}

// The UID that a report gives a sandbox: that of UsualPod, of a pod before it, or none.
const (
	UsualUID = "uid-1"
	OtherUID = "uid-0"
	NoUID    = ""
)

// MadeAgo is when the pod was created.
func MadeAgo(ago time.Duration) PodEdit {
	return func(p *corev1.Pod) { p.CreationTimestamp.Time = Now.Add(-ago) }
}
