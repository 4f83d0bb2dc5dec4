package informers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// difference is an object of which a cache has another version than was read.
type difference struct {
	resource       string
	name           types.NamespacedName
	cached, listed string // resourceVersions, "" for none
}

// differences are those between the caches and what was read by quorum.
func (v *view) differences(o *judge.Observation, kinds []kind) map[string]difference {
	listed := listedVersions(o)
	found := map[string]difference{}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range kinds {
		resource := k.resource.Resource
		if resource == "leases" || resource == "namespaces" || // not in an observation as they are
			resource == v1alpha1.Resource().Resource && o.ReportsUnreadable {
			continue
		}
		uncached := maps.Clone(listed[resource])
		for name, i := range v.objects[resource] {
			if version := uncached[name]; version != i.ResourceVersion {
				found[resource+" "+name.String()] = difference{resource, name, i.ResourceVersion, version}
			}
			delete(uncached, name)
		}
		for name, version := range uncached {
			found[resource+" "+name.String()] = difference{resource, name, "", version}
		}
	}
	return found
}

// listedVersions are the resourceVersions in an observation, by resource.
func listedVersions(o *judge.Observation) map[string]map[types.NamespacedName]string {
	listed := map[string]map[types.NamespacedName]string{}
	add := func(resource, namespace, name, version string) {
		if listed[resource] == nil {
			listed[resource] = map[types.NamespacedName]string{}
		}
		listed[resource][types.NamespacedName{Namespace: namespace, Name: name}] = version
	}
	for _, p := range o.Pools {
		add(ippool.PoolResource.Resource, p.Namespace, p.Name, p.ResourceVersion)
	}
	for _, r := range o.Reservations {
		add(ippool.ReservationResource.Resource, r.Namespace, r.Name, r.ResourceVersion)
	}
	for name, p := range o.Pods {
		add("pods", name.Namespace, name.Name, p.ResourceVersion)
	}
	for name, n := range o.Nodes {
		add("nodes", "", name, n.ResourceVersion)
	}
	for name, n := range o.NADs {
		add(ippool.NADResource.Resource, name.Namespace, name.Name, n.ResourceVersion)
	}
	for _, r := range o.Reports {
		add(v1alpha1.Resource().Resource, "", r.Name, r.ResourceVersion)
	}
	return listed
}

// persisting are the differences of which the cached version has not changed.
func persisting(before, after map[string]difference) map[string]difference {
	maps.DeleteFunc(after, func(key string, d difference) bool {
		first, was := before[key]
		return !was || first.cached != d.cached
	})
	return after
}

func describe(differences map[string]difference) string {
	keys := slices.Sorted(maps.Keys(differences))
	d := differences[keys[0]]
	var text string
	switch {
	case d.cached == "":
		text = "is missing there"
	case d.listed == "":
		text = "is there and does not exist"
	default:
		text = fmt.Sprintf("is there at resourceVersion %s and was read at %s", d.cached, d.listed)
	}
	more := ""
	if n := len(keys) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return strings.TrimSpace(keys[0]) + " " + text + more
}
