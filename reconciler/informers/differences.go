package informers

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// difference is an object of which a cache has another version than was read.
type difference struct {
	object         string // its resource and name
	cached, listed string // resourceVersions, "" for none
}

// objectKey names an object of any kind.
type objectKey struct {
	resource string
	types.NamespacedName
}

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

// differences are those between the caches and what was read by quorum, in order, of objects that
// have not changed in the caches since beginComparison.
func (v *view) differences(o *judge.Observation, kinds []kind) (found []difference) {
	listed := listedVersions(o)
	v.mu.Lock()
	defer v.mu.Unlock()
	add := func(resource string, name types.NamespacedName, cached, listed string) {
		if cached != listed && !v.changedSince[objectKey{resource, name}] {
			found = append(found, difference{resource + " " + name.String(), cached, listed})
		}
	}
	for _, k := range kinds {
		resource := k.resource.Resource
		listed, isRead := listed[resource]
		if !isRead {
			continue
		}
		for name, i := range v.objects[resource] {
			add(resource, name, i.ResourceVersion, listed[name])
		}
		for name, version := range listed {
			if v.objects[resource][name] == nil {
				add(resource, name, "", version)
			}
		}
	}
	slices.SortFunc(found, func(a, b difference) int { return cmp.Compare(a.object, b.object) })
	return found
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

// describe names the first difference, and how many there are.
func describe(differences []difference) string {
	d, more := differences[0], ""
	if n := len(differences) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	switch {
	case d.cached == "":
		return d.object + " is missing there" + more
	case d.listed == "":
		return d.object + " is there and does not exist" + more
	}
	return fmt.Sprintf("%s is there at resourceVersion %s and was read at %s%s", d.object, d.cached, d.listed, more)
}
