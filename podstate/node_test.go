package podstate_test

import (
	"fmt"
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
		{"out of service, no condition", node("", outOfService), false},
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

func TestNode_Addresses(t *testing.T) {
	n := node(corev1.ConditionTrue)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
		{Type: corev1.NodeExternalIP, Address: "2001:db8::1"}, {Type: corev1.NodeHostName, Address: "192.0.2.2"},
		{Type: corev1.NodeInternalIP, Address: "worker-1"}}
	sameAddrs(t, "addresses", podstate.ReadNode(n).Addresses, "192.0.2.1", "2001:db8::1")
	for range 100 {
		n.Status.Addresses = append(n.Status.Addresses, n.Status.Addresses[0])
	}
	equal(t, "addresses", len(podstate.ReadNode(n).Addresses), 32)
}

// guest is a VirtualMachineInstance after a live migration, whose guest kept the address of its first pod. It is
// recorded from KubeVirt's user guide (network/interfaces_and_networks.md) and its types (VirtualMachineInstance in
// staging/src/kubevirt.io/api/core/v1/types.go; kubevirt issue 13709).
const guest = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance",
"metadata":{"name":"vm-1","namespace":"vms","uid":"vmi-1"},
"spec":{"domain":{"devices":{"interfaces":[{"name":"default","masquerade":{}},{"name":"storage","bridge":{}}]}},
"networks":[{"name":"default","pod":{}},{"name":"storage","multus":{"networkName":"wb"}},
{"name":"other","multus":{"networkName":"nets/blue"}}]},
"status":{"activePods":{"uid-b":"worker-2"},"interfaces":[
{"name":"default","ipAddress":"10.244.1.7","ipAddresses":["10.244.1.7"],"infoSource":"domain, guest-agent"},
{"name":"storage","interfaceName":"eth1","ipAddress":"10.0.0.5","ipAddresses":["10.0.0.5","fd00::5/64","fe80::1%eth1"],
"mac":"02:00:00:00:00:01","infoSource":"domain, guest-agent, multus-status"},
{"name":"other","ipAddress":""},{"interfaceName":"docker0","ipAddress":"172.17.0.1"}]}}`

func TestDecodeGuest(t *testing.T) {
	g, err := podstate.DecodeGuest([]byte(guest))
	check(t, err)
	want := "{vms/vm-1 [{vms/wb storage false [10.0.0.5 fd00::5 fe80::1 10.0.0.5]} {nets/blue other false []}]}"
	if got := fmt.Sprintf("{%s %v}", g, g.Interfaces); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var names []string
	list := `{"kind":"VirtualMachineInstanceList","metadata":{"resourceVersion":"7"},"items":[` + guest +
		`,{"metadata":{"name":"new","namespace":"vms"}}]}`
	_, err = podstate.DecodeGuests([]byte(list), func(g *podstate.Guest) { names = append(names, g.String()) })
	if err != nil || fmt.Sprint(names) != "[vms/vm-1 vms/new]" {
		t.Errorf("a list: %v, %v", names, err)
	}
	if _, err := podstate.DecodeGuest([]byte(`{"metadata":{"name":7}}`)); err == nil {
		t.Error("a name that is no text is no error")
	}
}
