package podstate

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Node has the facts about a Node object that rules read.
type Node struct {
	Name      string
	CreatedAt time.Time // creation time of the object
	Labels    map[string]string
	BootID    string
	// KubeletVersion names the distribution of Kubernetes, as in v1.33.1+rke2r1. No rule reads it.
	KubeletVersion string
	Machine        v1alpha1.Machine
	// Addresses are the Node's internal and external addresses. No rule reads them.
	Addresses []netip.Addr
	Ready     bool
	// HasReadyCondition is false if nothing is known of the condition Ready. The node then counts as not Ready.
	HasReadyCondition bool
	NotReadySince     time.Time // since when Ready is not True; zero if it is True, or unknown
	OutOfService      bool      // has the taint node.kubernetes.io/out-of-service
	// OutOfServiceTaint identifies this taint: the UID of the Node, and value and effect of the taint. A later
	// taint may differ.
	OutOfServiceTaint string

	UID, ResourceVersion string
}

// maxNodeAddresses limits the addresses of a Node.
const maxNodeAddresses = 32

// ReadNode reads a Node object.
func ReadNode(o *corev1.Node) *Node {
	info := &o.Status.NodeInfo
	n := &Node{Name: o.Name, UID: string(o.UID), ResourceVersion: o.ResourceVersion, CreatedAt: o.CreationTimestamp.Time,
		Labels: o.Labels, BootID: info.BootID, KubeletVersion: info.KubeletVersion,
		Machine: v1alpha1.Machine{SystemUUID: info.SystemUUID, MachineID: info.MachineID}}
	for _, c := range o.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		n.HasReadyCondition, n.Ready = true, c.Status == corev1.ConditionTrue
		if !n.Ready {
			n.NotReadySince = c.LastTransitionTime.Time
		}
	}
	for _, a := range o.Status.Addresses {
		isIP := a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
		if addr, err := parseAddr(a.Address); isIP && err == nil && len(n.Addresses) < maxNodeAddresses {
			n.Addresses = append(n.Addresses, addr)
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

// IsDead reports whether the node is proven dead: it has the out-of-service taint, and its condition Ready is not True.
// A missing condition proves nothing.
func (n *Node) IsDead() bool { return n.OutOfService && n.HasReadyCondition && !n.Ready }
