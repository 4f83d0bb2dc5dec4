package kube

import "testing"

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
