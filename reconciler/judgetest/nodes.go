package judgetest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// NodeEdit changes a Node before it is read.
type NodeEdit func(*corev1.Node)

// Node adds a Ready Linux node, running boot-1.
func Node(name string, edits ...NodeEdit) Part {
	return func(o *Observed) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = "boot-1",
			MachineOf(name).SystemUUID, MachineOf(name).MachineID
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		for _, e := range edits {
			e(n)
		}
		o.Nodes.Or(nil)[name] = podstate.ReadNode(n)
		o.store("nodes", types.NamespacedName{Name: name}, n)
	}
}

// NotReadyFor has the node not Ready (Unknown, as the node controller writes it) for so long.
func NotReadyFor(d time.Duration) NodeEdit {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(Now.Add(-d))}}
	}
}

// OutOfService adds the taint; a node counts as dead when it is not Ready, too.
func OutOfService(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/out-of-service",
		Effect: corev1.TaintEffectNoExecute})
}

// Booted sets the bootID.
func Booted(id string) NodeEdit { return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id } }

// Label sets a label of the Node.
func Label(key, value string) NodeEdit { return func(n *corev1.Node) { n.Labels[key] = value } }

// WithoutLabel removes a label of the Node.
func WithoutLabel(key string) NodeEdit { return func(n *corev1.Node) { delete(n.Labels, key) } }

// WithoutAgent makes --agent-nodes, by its default, not select the node.
var WithoutAgent = Label("kubernetes.io/os", "other")

// ReplacedMachine adds worker-1, and a worker-2 that is a new machine without a report of
// its own: the last report by that name is of the machine before it.
func ReplacedMachine() Part {
	return All(Node("worker-1"), Node("worker-2", Booted("boot-2"),
		OnMachine(v1alpha1.Machine{SystemUUID: "board of the new one", MachineID: "disk of the new one"})),
		FreshReport("worker-1"), StaleReport("worker-2", RenewedAt(Now.Add(-3*time.Hour))))
}

// ReportingNode adds a Ready node with a fresh report.
func ReportingNode(name string, c ...ReportEdit) Part {
	return All(Node(name), FreshReport(name, c...))
}

// ThreeNodes are worker-1, worker-2 and worker-3.
func ThreeNodes() Part { return All(Node("worker-1"), Node("worker-2"), Node("worker-3")) }

// Sliced is a definition that cuts 10.0.0.0/24 of a network into node slices of 16 addresses.
func Sliced(network string) Part {
	return NAD("sliced"+network, WhereaboutsConfig("10.0.0.0/24", network, `"node_slice_size":"/28"`))
}
