package informers

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// objectKey names an object of any kind.
type objectKey struct {
	resource string
	types.NamespacedName
}

func (k objectKey) String() string { return k.resource + " " + k.NamespacedName.String() }

// beginComparison has the view note which objects change until endComparison.
func (v *view) beginComparison() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changedSince = map[objectKey]bool{}
}

func (v *view) endComparison() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changedSince = nil
}

// differences says how the caches differ from what was read by quorum, "" for not at all, and which object was read at an
// older resourceVersion than a cache has: then etcd was restored. Objects that have changed in the caches since
// beginComparison do not count.
func (v *view) differences(o *judge.Observation, kinds []kind) (differs, older string) {
	listed := listedVersions(o)
	v.mu.Lock()
	defer v.mu.Unlock()
	var found, restored []string
	compare := func(key objectKey, cached, listed string) {
		switch {
		case cached == listed, v.changedSince[key]:
			return
		case cached == "":
			found = append(found, key.String()+" is missing there")
		case listed == "":
			found = append(found, key.String()+" is there and does not exist")
		default:
			found = append(found, fmt.Sprintf("%s is there at resourceVersion %s and was read at %s", key, cached, listed))
		}
		if kube.Older(listed, cached) {
			restored = append(restored, fmt.Sprintf("%s is at resourceVersion %s after %s", key, listed, cached))
		}
	}
	for _, k := range kinds {
		resource := k.resource.Resource
		read, isRead := listed[resource]
		if !isRead {
			continue
		}
		for name, i := range v.objects[resource] {
			compare(objectKey{resource, name}, i.ResourceVersion, read[name])
		}
		for name, version := range read {
			if v.objects[resource][name] == nil {
				compare(objectKey{resource, name}, "", version)
			}
		}
	}
	slices.Sort(restored)
	if len(restored) > 0 {
		older = restored[0]
	}
	switch slices.Sort(found); len(found) {
	case 0:
		return "", older
	case 1:
		return found[0], older
	}
	return fmt.Sprintf("%s, and %d more", found[0], len(found)-1), older
}

// listedVersions are the resourceVersions in an observation, by resource. Leases and the
// namespace are not in an observation as they are.
func listedVersions(o *judge.Observation) map[string]map[types.NamespacedName]string {
	listed := map[string]map[types.NamespacedName]string{}
	of := func(resource string) map[types.NamespacedName]string {
		listed[resource] = map[types.NamespacedName]string{}
		return listed[resource]
	}
	pools, reservations, nads := of(ippool.PoolResource.Resource), of(ippool.ReservationResource.Resource), of(ippool.NADResource.Resource)
	for _, p := range o.Pools {
		pools[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p.ResourceVersion
	}
	for _, r := range o.Reservations {
		reservations[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r.ResourceVersion
	}
	for name, n := range o.NADs {
		nads[name] = n.ResourceVersion
	}
	pods, nodes := of("pods"), of("nodes")
	for name, p := range o.Pods {
		pods[name] = p.ResourceVersion
	}
	for name, n := range o.Nodes {
		nodes[types.NamespacedName{Name: name}] = n.ResourceVersion
	}
	if !o.ReportsUnreadable {
		reports := of(v1alpha1.Resource().Resource)
		for _, r := range o.Reports {
			reports[types.NamespacedName{Name: r.Name}] = r.ResourceVersion
		}
	}
	return listed
}
