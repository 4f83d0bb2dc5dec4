package podstate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestPod_Phase(t *testing.T) {
	for _, c := range []struct {
		phase   corev1.PodPhase
		deleted bool
		want    podstate.Phase
		word    string
	}{
		{corev1.PodFailed, false, podstate.Finished, "finished"},
		{corev1.PodFailed, true, podstate.Finished, "finished"},
		{corev1.PodSucceeded, false, podstate.Finished, "finished"},
		{corev1.PodSucceeded, true, podstate.Finished, "finished"},
		{corev1.PodRunning, true, podstate.Terminating, "terminating"},
		{corev1.PodPending, true, podstate.Terminating, "terminating"},
		{corev1.PodUnknown, true, podstate.Terminating, "terminating"},
		{"", true, podstate.Terminating, "terminating"},
		{corev1.PodPending, false, podstate.Pending, "Pending"},
		{"", false, podstate.Pending, "Pending"}, // new
		{corev1.PodRunning, false, podstate.Live, "live"},
		{corev1.PodUnknown, false, podstate.Live, "live"},
		{"SomethingNew", false, podstate.Live, "live"},
	} {
		p := podstate.ReadPod(pod(func(o *corev1.Pod) {
			o.Status.Phase = c.phase
			if c.deleted {
				o.DeletionTimestamp = atPtr(0)
			}
		}))
		if p.Phase != c.want || p.Phase.String() != c.word {
			t.Errorf("phase %q, deleted %v: %v; want %v", c.phase, c.deleted, p.Phase, c.word)
		}
	}
	equal(t, "no pod", podstate.None.String(), "none")
}

func TestPod_Fields(t *testing.T) {
	p := podstate.ReadPod(pod())
	equal(t, "name", p.NamespacedName.String(), "default/web-0")
	equal(t, "UID", p.UID, "api-uid")
	equal(t, "the runtime's UID", p.RuntimeUID, "api-uid")
	equal(t, "resourceVersion", p.ResourceVersion, "7")
	equal(t, "node", p.Node, "worker-1")
	equal(t, "stopped by kubelet", p.StoppedByKubelet, false)
	equal(t, "created", p.CreatedAt, noon.Add(-time.Hour))
	equal(t, "deleted", p.DeletionTime, time.Time{})
	equal(t, "overdue", p.IsOverdue(noon.Add(1000*time.Hour)), false)
}

// The API object of a static pod has another UID than the pod in the runtime, which is in the annotation.
func TestPod_RuntimeUIDOfMirrorPod(t *testing.T) {
	p := podstate.ReadPod(pod(func(o *corev1.Pod) {
		o.Annotations = map[string]string{"kubernetes.io/config.mirror": "static-uid"}
	}))
	equal(t, "UID", p.UID, "api-uid")
	equal(t, "the runtime's UID", p.RuntimeUID, "static-uid")
	p = podstate.ReadPod(pod(func(o *corev1.Pod) { o.Annotations = map[string]string{"kubernetes.io/config.mirror": ""} }))
	equal(t, "with an empty annotation", p.RuntimeUID, "api-uid")
}

// A sandbox without a UID belongs to no pod.
func TestPod_HasUID(t *testing.T) {
	p := podstate.ReadPod(pod(func(o *corev1.Pod) {
		o.Annotations = map[string]string{"kubernetes.io/config.mirror": "static-uid"}
	}))
	for uid, want := range map[string]bool{"": false, "api-uid": true, "static-uid": true, "another": false} {
		equal(t, "has "+uid, p.HasUID(uid), want)
	}
}

func TestPod_IsOverdue(t *testing.T) {
	p := podstate.ReadPod(pod(func(o *corev1.Pod) { o.DeletionTimestamp = atPtr(0) }))
	equal(t, "deleted", p.DeletionTime, noon)
	for after, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, 5 * time.Minute: false, 5*time.Minute + 1: true, time.Hour: true,
	} {
		equal(t, "overdue after "+after.String(), p.IsOverdue(noon.Add(after)), want)
	}
}

func TestPod_GracePeriod(t *testing.T) {
	for _, c := range []struct {
		name           string
		spec, deletion *int64
		want           time.Duration
	}{
		{"neither", nil, nil, 0},
		{"the spec's", ptr(int64(3600)), nil, time.Hour},
		{"the deletion's", ptr(int64(3600)), ptr(int64(10)), 10 * time.Second},
		{"a deletion without grace", ptr(int64(3600)), ptr(int64(0)), 0},
	} {
		p := podstate.ReadPod(pod(func(o *corev1.Pod) {
			o.Spec.TerminationGracePeriodSeconds, o.DeletionGracePeriodSeconds = c.spec, c.deletion
		}))
		equal(t, c.name, p.GracePeriod, c.want)
	}
}

func TestPod_IPs(t *testing.T) {
	p := podstate.ReadPod(pod(func(o *corev1.Pod) {
		o.Status.PodIP = "192.168.0.9"
		o.Status.PodIPs = []corev1.PodIP{{IP: "192.168.0.9"}, {IP: "FD00:0::9"}, {IP: ""}, {IP: "nonsense"}}
	}))
	sameAddrs(t, "podIPs", p.IPs, "192.168.0.9", "fd00::9")
	p = podstate.ReadPod(pod(func(o *corev1.Pod) { o.Status.PodIPs = nil }))
	sameAddrs(t, "podIP alone", p.IPs, "192.168.0.9")
	p = podstate.ReadPod(pod(func(o *corev1.Pod) { o.Status.PodIPs, o.Status.PodIP = nil, "" }))
	sameAddrs(t, "none yet", p.IPs)
}

// The status and annotations of a finished pod still have its addresses, which are not in use.
func TestPod_FinishedHasNoAddresses(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		p := podstate.ReadPod(pod(status(`[{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5"]}]`),
			func(o *corev1.Pod) { o.Status.Phase = phase }))
		if len(p.IPs) > 0 || len(p.Interfaces) > 0 || p.Status != podstate.StatusMissing {
			t.Errorf("%s: addresses %v, interfaces %v, status %v", phase, p.IPs, p.Interfaces, p.Status)
		}
	}
	p := podstate.ReadPod(pod(status(`[{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5"]}]`),
		func(o *corev1.Pod) { o.DeletionTimestamp = atPtr(0) }))
	if len(p.IPs) == 0 || len(p.Interfaces) != 1 {
		t.Error("a terminating pod keeps its addresses: its containers may run for an hour yet")
	}
}

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
		{"an empty state", func(o *corev1.Pod) { o.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, false},
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
		{"an ephemeral container without a status", func(o *corev1.Pod) { o.Spec.EphemeralContainers = debug }, false},
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

func TestPod_RequestedNetworks(t *testing.T) {
	for _, c := range []struct{ networks, first, want string }{
		{"", "", "[]"},
		{"a", "", "[default/a]"},
		{"a,b", "", "[default/a default/b]"},
		{" a , x/b ", "", "[default/a x/b]"},
		{"a@net5,x/b@eth1", "", "[default/a x/b]"},
		{"a,a", "", "[default/a default/a]"},
		{`[{"name":"a"},{"name":"b","namespace":"x","interface":"net5","ips":["10.0.0.5"]}]`, "", "[default/a x/b]"},
		{`[]`, "", "[]"},
		{"", "d", "[kube-system/d]"},
		{"a", "x/d", "[x/d default/a]"},
		{"a", `[{"name":"d","namespace":"x"}]`, "[x/d default/a]"},
		{"a", "d,e", "[]"}, // Multus refuses the pod
		{"x/y/z", "", "[]"},
		{"a@b@c", "", "[]"},
		{"a,b.c", "", "[]"},
		{`[{"name":"b.c"}]`, "", "[default/b.c]"},
		{`[{"name":`, "", "[]"},
		{`{"name":"a"}`, "", "[]"},
		{`[null]`, "", "[]"},
		{strings.Repeat("a,", 64) + "a", "", "[]"},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": c.networks,
				"v1.multus-cni.io/default-network": c.first}
		})
		if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != c.want {
			t.Errorf("%q and %q: %s, want %s", c.networks, c.first, got, c.want)
		}
	}
}

func TestPod_RequestedNetworksByPhase(t *testing.T) {
	for text, want := range map[string]string{`[{"name":"default/a"}]`: "[]", "garbage": "[default/a]",
		"": "[default/a]"} {
		p := pod(status(text), func(p *corev1.Pod) { p.Annotations["k8s.v1.cni.cncf.io/networks"] = "a" })
		if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != want {
			t.Errorf("%q: kept %v, want %v", text, got, want)
		}
	}
	p := pod(status("garbage"), func(p *corev1.Pod) {
		p.Annotations["k8s.v1.cni.cncf.io/networks"], p.Status.Phase = "a", corev1.PodFailed
	})
	if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != "[default/a]" {
		t.Errorf("of a finished pod: %v", got)
	}
}

func TestPod_Workload(t *testing.T) {
	owner := func(kind, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Name: name, Controller: controller}
	}
	for _, c := range []struct {
		owners []metav1.OwnerReference
		want   string
	}{
		{nil, ""},
		{[]metav1.OwnerReference{owner("Node", "w", nil), owner("Node", "x", ptr(false))}, ""},
		{[]metav1.OwnerReference{owner("Node", "w", nil), owner("ReplicaSet", "web-7d", ptr(true))}, "ReplicaSet/web-7d"},
	} {
		p := pod(func(p *corev1.Pod) { p.OwnerReferences = c.owners })
		if got := podstate.ReadPod(p).Workload; got != c.want {
			t.Errorf("%v: %q, want %q", c.owners, got, c.want)
		}
	}
}
