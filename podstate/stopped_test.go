package podstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func failed(changes ...func(*corev1.Pod)) *corev1.Pod {
	stopped := func(o *corev1.Pod) {
		o.Status.Phase = corev1.PodFailed
		o.Status.ContainerStatuses[0].State = terminated(-time.Minute)
		o.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return pod(append([]func(*corev1.Pod){stopped}, changes...)...)
}

// Only kubelet sets all containers to terminated and Ready to not True. Other writers of a terminal phase do not
// change the statuses.
func TestPod_StoppedByKubelet(t *testing.T) {
	debug := []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"every container terminated, Ready False", func(*corev1.Pod) {}, true},
		{"Ready Unknown", func(o *corev1.Pod) { o.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		{"no Ready condition", func(o *corev1.Pod) { o.Status.Conditions = nil }, true},
		{"another condition is True", func(o *corev1.Pod) {
			o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
				Status: corev1.ConditionTrue})
		}, true},
		// kubelet before 1.25 wrote Failed over running containers.
		{"phase Failed with Ready True", func(o *corev1.Pod) { o.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		{"phase Failed with a running container (PodGC)",
			func(o *corev1.Pod) { o.Status.ContainerStatuses[0].State = running }, false},
		{"a waiting container", func(o *corev1.Pod) { o.Status.ContainerStatuses[0].State = waiting }, false},
		{"an empty state", func(o *corev1.Pod) { o.Status.ContainerStatuses[0].State = corev1.ContainerState{} },
			false},
		{"running again, terminated before", func(o *corev1.Pod) {
			o.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "main", State: running,
				LastTerminationState: terminated(-time.Hour)}
		}, false},
		{"no status at all", func(o *corev1.Pod) { o.Status.ContainerStatuses = nil }, false},
		{"no containers in the spec either", func(o *corev1.Pod) { o.Status.ContainerStatuses, o.Spec.Containers = nil, nil },
			false},
		{"a second container without a status", func(o *corev1.Pod) {
			o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: "side"})
		}, false},
		{"a second container, still running", func(o *corev1.Pod) {
			o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: "side"})
			o.Status.ContainerStatuses = append(o.Status.ContainerStatuses, corev1.ContainerStatus{Name: "side", State: running})
		}, false},
		{"a status under another name", func(o *corev1.Pod) { o.Status.ContainerStatuses[0].Name = "other" }, false},
		{"an init container, terminated", func(o *corev1.Pod) {
			o.Spec.InitContainers = []corev1.Container{{Name: "init"}}
			o.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: terminated(-time.Hour)}}
		}, true},
		{"a sidecar among the init containers, running", func(o *corev1.Pod) {
			o.Spec.InitContainers = []corev1.Container{{Name: "init"}}
			o.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: running}}
		}, false},
		{"an init container without a status", func(o *corev1.Pod) {
			o.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		}, false},
		{"an ephemeral container, terminated", func(o *corev1.Pod) {
			o.Spec.EphemeralContainers = debug
			o.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: terminated(-time.Hour)}}
		}, true},
		{"an ephemeral container, running", func(o *corev1.Pod) {
			o.Spec.EphemeralContainers = debug
			o.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: running}}
		}, false},
		{"an ephemeral container without a status", func(o *corev1.Pod) {
			o.Spec.EphemeralContainers = debug
		}, false},
		{"a running status of a container that the spec does not have", func(o *corev1.Pod) {
			o.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "ghost", State: running}}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "stopped by kubelet", podstate.ReadPod(failed(c.change)).StoppedByKubelet, c.want)
		})
	}
}

func TestPod_LastFinishedAt(t *testing.T) {
	p := podstate.ReadPod(failed(func(o *corev1.Pod) {
		o.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: terminated(-time.Hour)}}
		o.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: terminated(-time.Second)}}
	}))
	equal(t, "last finished", p.LastFinishedAt, noon.Add(-time.Second))
	equal(t, "nothing finished", podstate.ReadPod(pod()).LastFinishedAt, time.Time{})
}
