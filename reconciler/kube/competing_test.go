package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAWorkloadIsKnownByThePodsThatItMakes(t *testing.T) {
	for _, c := range []struct {
		kind, name, pod string
		is              bool
	}{
		{"Deployment", "whereabouts-reconciler", "whereabouts-reconciler-6d5f7c9b8-x2x4z", true},
		{"DaemonSet", "whereabouts", "whereabouts-reconciler-6d5f7c9b8-x2x4z", false},
		{"DaemonSet", "whereabouts", "whereabouts-x2x4z", true},
		{"DaemonSet", "whereabouts-reconciler", "whereabouts-reconciler-6d5f7c9b8-x2x4z", false},
		{"CronJob", "ip-reconciler", "ip-reconciler-29012345-x2x4z", true},
		{"CronJob", "ip-reconciler", "ip-reconciler-x2x4z", false},
		{"Deployment", "whereabouts-reconciler", "", false},
		{"Deployment", "whereabouts-reconciler", "worker-1", false},
	} {
		if got := (workload{kind: c.kind, name: c.name}).made(c.pod); got != c.is {
			t.Errorf("%s %s made %q: %v", c.kind, c.name, c.pod, got)
		}
	}
}

// A mirror may give whereabouts' own image the name of its program.
func TestHasOurImage(t *testing.T) {
	for image, want := range map[string]bool{
		"example.com/ip-reconcile:0.1.0": true, "ip-reconcile": true, "example.com/ip-reconcile/ip-reconcile@sha256:0a": true, "example.com:5000/ip-reconcile-agent:1": true,
		"example.com/mirror/ip-reconciler:v0.9.4": false, "example.com/whereabouts:ip-reconcile": false, "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4": false,
	} {
		if got := HasOurImage(&corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}); got != want {
			t.Errorf("%s: %v", image, got)
		}
	}
}
