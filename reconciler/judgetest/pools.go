package judgetest

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Allocation is an entry of a pool under its key, as whereabouts stores it.
type Allocation struct{ Key, PodRef, ID, IfName string }

// Alloc is an Allocation.
func Alloc(key, podRef, id, ifName string) Allocation {
	return Allocation{key, podRef, id, ifName}
}

// UsualAllocation is that of 10.0.0.5 in UsualPool.
var UsualAllocation = Alloc("5", "default/web-0", "box-1", "net1")

// UsualPool adds the pool that has UsualAllocation and nothing else.
func UsualPool(o *Observed) { Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation)(o) }

// Pool adds kube-system/<name>.
func Pool(name, cidr string, allocs ...Allocation) Part {
	entries := map[string]any{}
	for _, a := range allocs {
		entries[a.Key] = map[string]any{"id": a.ID, "podref": a.PodRef, "ifname": a.IfName}
	}
	return RawPool(name, map[string]any{"range": cidr, "allocations": entries})
}

// RawPool adds kube-system/<name> with any spec, one that cannot be read included.
func RawPool(name string, spec map[string]any) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
			"kind": "IPPool", "spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetResourceVersion("7")
		o.AddPool(u)
	}
}

// LongAgo is the age of a reservation whose ADD or DEL is long over.
const LongAgo = time.Hour

// Reservation adds the OverlappingRangeIPReservation kube-system/<name>.
func Reservation(name, podRef string, age time.Duration) Part {
	return RawReservation(name, age, map[string]any{"podref": podRef, "ifname": "net1"})
}

// RawReservation adds the reservation kube-system/<name> with any spec.
func RawReservation(name string, age time.Duration, spec map[string]any) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetUID(types.UID("uid of " + name))
		u.SetCreationTimestamp(metav1.NewTime(o.Now.Add(-age)))
		o.AddReservation(u)
	}
}

// NAD adds the NetworkAttachmentDefinition default/<name> with the given CNI config.
func NAD(name, config string) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
		u.SetNamespace("default")
		u.SetName(name)
		id := types.NamespacedName{Namespace: "default", Name: name}
		o.NADs.Or(nil)[id] = ippool.Read[ippool.NAD](u)
		o.store("network-attachment-definitions", id, u.Object)
	}
}

// WhereaboutsConfig is the CNI config of a macvlan network with whereabouts as its
// IPAM; more are further fields of its IPAM section, as JSON.
func WhereaboutsConfig(cidr, networkName string, more ...string) string {
	return fmt.Sprintf(`{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":%q,`+
		`"network_name":%q%s}}`,
		cidr, networkName, strings.Join(append([]string{""}, more...), ","))
}
