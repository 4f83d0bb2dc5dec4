package statuscmd

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestStatus_FlagAndVersionOfAWorkload(t *testing.T) {
	w := workload{Spec: running("registry:5000/ip-reconcile:1.2.3@sha256:00", "serve", "--cron=@every 5m",
		"--agent-nodes", "pool=gpu", "--repair", "-trust-network-status", "--agent-nodes=kubernetes.io/os=linux",
		"--leader-elect", "--leader-elect=false")}
	for flag, want := range map[string]string{"cron": "@every 5m", "agent-nodes": "kubernetes.io/os=linux", "agents": ""} {
		if got := w.argument(flag, ""); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	for flag, want := range map[string]string{"repair": "true", "trust-network-status": "true", "leader-elect": "false",
		"without-lease": ""} {
		if got := w.argument(flag, "true"); got != want {
			t.Errorf("the switch --%s is %q, want %q", flag, got, want)
		}
	}
	for image, want := range map[string]string{
		"registry:5000/ip-reconcile:1.2.3@sha256:00": "1.2.3", "registry:5000/ip-reconcile": "", "ip-reconcile@sha256:00": "",
		"ip-reconcile:1.2.3": "1.2.3",
	} {
		w.Spec.Containers[0].Image = image
		if got := w.version(); got != want {
			t.Errorf("the version of %s is %q, want %q", image, got, want)
		}
	}
}

// A mirror may name whereabouts' image ip-reconciler.
func TestWorkload_IsOurs(t *testing.T) {
	for image, want := range map[string]bool{
		"example.com/ip-reconcile:0.1.0": true, "ip-reconcile": true, "example.com/ip-reconcile/ip-reconcile@sha256:0a": true,
		"example.com:5000/ip-reconcile-agent:1":   true,
		"example.com/mirror/ip-reconciler:v0.9.4": false, "example.com/whereabouts:ip-reconcile": false,
		"ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4": false,
	} {
		w := workload{Spec: &corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		if got := w.isOurs(); got != want {
			t.Errorf("%s: got %t, want %t", image, got, want)
		}
	}
}
