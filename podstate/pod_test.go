package podstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
