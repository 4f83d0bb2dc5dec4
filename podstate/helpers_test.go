package podstate_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time     { return metav1.NewTime(noon.Add(d)) }
func atPtr(d time.Duration) *metav1.Time { t := at(d); return &t }

func ptr[T any](v T) *T { return &v }

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func sameAddrs(t *testing.T, what string, got []netip.Addr, want ...string) {
	t.Helper()
	if !slices.Equal(got, addrs(want...)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// pod returns a running pod with one container and these changes.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "api-uid", ResourceVersion: "7",
			CreationTimestamp: at(-time.Hour)},
		Spec: corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			PodIP:             "192.168.0.9",
			PodIPs:            []corev1.PodIP{{IP: "192.168.0.9"}, {IP: "fd00::9"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: running}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
)

func terminated(d time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(d)}}
}

func status(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": text}
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
