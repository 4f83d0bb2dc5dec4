package reconciler_test

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// The pools of two networks have the same range.
const (
	bluePool = "10.0.0.0-16"
	redPool  = "red-10.0.0.0-16"
)

// networkOf is the network_name that a pool's name has.
func networkOf(pool string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pool, bluePool), "-")
}

// entry writes an entry and, if wanted, its reservation.
func (s *simulator) entry(pool string, key int, podRef, id string, reserved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pools[pool]
	if u == nil {
		u = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
			"spec": map[string]any{"range": "10.0.0.0/16", "allocations": map[string]any{}},
		}}
		u.SetNamespace("kube-system")
		u.SetName(pool)
	}
	u = u.DeepCopy()
	_ = unstructured.SetNestedMap(u.Object, map[string]any{"id": id, "podref": podRef, "ifname": "net1"}, "spec", "allocations", strconv.Itoa(key))
	s.store(s.pools, u)
	if reserved {
		s.store(s.reservations, ippool.NewReservation("kube-system", networkOf(pool), addressOf(key), podRef, "net1"))
	}
}

func addressOf(key int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(key >> 8), byte(key)}) }

// pod makes a pod that runs and carries the addresses of some keys; without
// any it is Pending.
func (s *simulator) pod(name, uid string, keys ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.Now()},
		Spec:   corev1.PodSpec{NodeName: "worker-1", TerminationGracePeriodSeconds: &zero},
		Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if len(keys) > 0 {
		var ips []string
		for _, k := range keys {
			ips = append(ips, addressOf(k).String())
		}
		status, _ := json.Marshal([]map[string]any{{"name": "default/wb", "interface": "net1", "ips": ips}})
		p.Status.Phase, p.Annotations = corev1.PodRunning, map[string]string{"k8s.v1.cni.cncf.io/networks": "wb", "k8s.v1.cni.cncf.io/network-status": string(status)}
	}
	s.revision++
	s.pods[types.NamespacedName{Namespace: "default", Name: name}] = p
}

func (s *simulator) noPod(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	delete(s.pods, types.NamespacedName{Namespace: "default", Name: name})
}
