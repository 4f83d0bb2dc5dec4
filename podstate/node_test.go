package podstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func node(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: map[string]string{"kubernetes.io/os": "linux"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{BootID: "boot-1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
				LastTransitionTime: at(-time.Hour)}},
		},
	}
	if ready != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready,
			LastTransitionTime: at(-time.Minute)})
	}
	return n
}

func TestNode_Ready(t *testing.T) {
	for _, c := range []struct {
		status corev1.ConditionStatus
		ready  bool
		since  time.Time
	}{
		{corev1.ConditionTrue, true, time.Time{}},
		{corev1.ConditionFalse, false, noon.Add(-time.Minute)},
		{corev1.ConditionUnknown, false, noon.Add(-time.Minute)}, // unreachable
		{"", false, time.Time{}},                                 // no condition: not ready since an unknown time
	} {
		n := podstate.ReadNode(node(c.status))
		if n.Ready != c.ready || !n.NotReadySince.Equal(c.since) {
			t.Errorf("Ready %q: ready %v since %v; want %v, %v", c.status, n.Ready, n.NotReadySince, c.ready, c.since)
		}
	}
}

// An operator sets the taint, but a Ready kubelet contradicts it. A node that is only not Ready may be partitioned.
func TestNode_IsDead(t *testing.T) {
	outOfService := corev1.Taint{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute}
	unreachable := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name string
		node *corev1.Node
		want bool
	}{
		{"out of service, Ready Unknown", node(corev1.ConditionUnknown, unreachable, outOfService), true},
		{"out of service, Ready False", node(corev1.ConditionFalse, outOfService), true},
		{"out of service, no condition", node("", outOfService), true},
		{"out of service by NoSchedule", node(corev1.ConditionFalse, corev1.Taint{Key: outOfService.Key,
			Effect: corev1.TaintEffectNoSchedule}), true},
		{"out of service, but Ready", node(corev1.ConditionTrue, outOfService), false},
		{"unreachable", node(corev1.ConditionUnknown, unreachable), false},
		{"not ready", node(corev1.ConditionFalse), false},
		{"well", node(corev1.ConditionTrue), false},
	} {
		equal(t, c.name, podstate.ReadNode(c.node).IsDead(), c.want)
	}
}
