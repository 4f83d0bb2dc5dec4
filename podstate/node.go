package podstate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Node is what the rules need of a Node object.
type Node struct {
	Name          string
	CreatedAt     time.Time // when the object was
	Labels        map[string]string
	BootID        string
	Machine       v1alpha1.Machine
	Ready         bool
	NotReadySince time.Time // since when Ready is not True; zero if it is, or if that is not known
	OutOfService  bool      // the taint node.kubernetes.io/out-of-service
	// OutOfServiceTaint is what distinguishes this taint from one that was set before or after it: the
	// UID of the Node, and value and effect of the taint.
	OutOfServiceTaint string

	UID, ResourceVersion string
}

// ReadNode takes from a Node object what the rules need.
func ReadNode(o *corev1.Node) *Node {
	info := &o.Status.NodeInfo
	n := &Node{Name: o.Name, CreatedAt: o.CreationTimestamp.Time, Labels: o.Labels, BootID: info.BootID, Machine: v1alpha1.Machine{SystemUUID: info.SystemUUID, MachineID: info.MachineID},
		UID: string(o.UID), ResourceVersion: o.ResourceVersion}
	for _, c := range o.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		n.Ready = c.Status == corev1.ConditionTrue
		if !n.Ready {
			n.NotReadySince = c.LastTransitionTime.Time
		}
	}
	for _, t := range o.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			n.OutOfService = true
			n.OutOfServiceTaint += string(o.UID) + "=" + t.Value + ":" + string(t.Effect) + ";"
		}
	}
	return n
}

// IsDead reports whether the node is proven dead: an operator declared it so with
// the out-of-service taint, and its kubelet does not contradict by being Ready.
func (n *Node) IsDead() bool { return n.OutOfService && !n.Ready }
