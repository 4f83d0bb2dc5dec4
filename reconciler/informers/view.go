package informers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// item is what a cache keeps of an object.
type item struct {
	types.NamespacedName
	UID             types.UID
	ResourceVersion string
	parsed          any
}

// GetObjectMeta is for the cache, which asks for the name and the resourceVersion:
// an ObjectMeta in each of many thousand items would be larger than the rest.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion}
}

// transform is the cache's: it replaces an object by what was parsed of it.
func (k kind) transform(o any) (any, error) {
	object, ok := o.(client.Object)
	if !ok { // it was transformed before
		return o, nil
	}
	return &item{
		NamespacedName: client.ObjectKeyFromObject(object), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		parsed: k.parse(object),
	}, nil
}

// view is what the watches have told so far.
type view struct {
	mu       sync.Mutex
	objects  map[string]map[types.NamespacedName]*item // by resource
	newest   map[string]uint64                         // resourceVersion, by resource
	restored string                                    // which object came at an older resourceVersion than before
	podRefs  map[string]int                            // how many allocations and reservations name a pod
	changes  *changes                                  // since the last observation; nil where there is none or they are too many
	now      func() time.Time                          // the API server's time
	onChange func(what string)
	leases   string // the namespace of the agents' Leases
	reports  *knownReports
}

func newView(leases string, now func() time.Time, onChange func(what string), reports *knownReports) *view {
	return &view{objects: map[string]map[types.NamespacedName]*item{}, newest: map[string]uint64{}, podRefs: map[string]int{}, leases: leases, now: now, onChange: onChange, reports: reports}
}

// set takes in a new or changed object.
func (v *view) set(resource string, i *item) {
	v.mu.Lock()
	all := v.objects[resource]
	if all == nil {
		all = map[types.NamespacedName]*item{}
		v.objects[resource] = all
	}
	before := all[i.NamespacedName]
	all[i.NamespacedName] = i
	v.newest[resource] = max(v.newest[resource], revision(i))
	v.retainVerified(before, i)
	v.reports.added(resource, i.NamespacedName)
	if before != nil && before.UID == i.UID && kube.Older(i.ResourceVersion, before.ResourceVersion) {
		v.restored = fmt.Sprintf("%s %s is at resourceVersion %s after %s", resource, i.NamespacedName, i.ResourceVersion, before.ResourceVersion)
	}
	v.countPodRefs(before, -1)
	v.countPodRefs(i, 1)
	affects := v.affectsVerdict(before, i)
	v.recordChange(before, i, affects)
	v.mu.Unlock()
	if affects {
		v.onChange(resource)
	}
}

func (v *view) remove(resource string, i *item) {
	v.mu.Lock()
	v.countPodRefs(v.objects[resource][i.NamespacedName], -1)
	delete(v.objects[resource], i.NamespacedName)
	v.reports.removed(resource, i.NamespacedName, v.now())
	v.newest[resource] = max(v.newest[resource], revision(i))
	affects := v.affectsVerdict(i, nil)
	v.recordChange(nil, i, affects)
	v.mu.Unlock()
	if affects {
		v.onChange(resource)
	}
}

// revision is the resourceVersion as a number, 0 where it is none.
func revision(i *item) uint64 {
	n, _ := strconv.ParseUint(i.ResourceVersion, 10, 64)
	return n
}

// observe puts together what is to be judged. What the watches do not tell is taken
// from the last full pass, where there was one.
func (v *view) observe(last *judge.Observation) *judge.Observation {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changes = newChanges()
	o := &judge.Observation{
		Watched: true, Now: v.now(), NADs: map[types.NamespacedName]*ippool.NAD{}, Pods: map[types.NamespacedName]*podstate.Pod{},
		Warnings: last.Warnings, ReportsUnreadable: last.ReportsUnreadable, Paused: last.Paused, Acknowledged: last.Acknowledged,
	}
	for _, resource := range slices.Sorted(maps.Keys(v.objects)) {
		for name, i := range v.objects[resource] {
			switch p := i.parsed.(type) {
			case *ippool.Pool:
				o.Pools = append(o.Pools, p)
			case *ippool.Reservation:
				o.Reservations = append(o.Reservations, p)
			case *ippool.NAD:
				o.NADs[name] = p
			case *podstate.Pod:
				o.Pods[name] = p
			case *podstate.Node:
				if o.Nodes == nil {
					o.Nodes = map[string]*podstate.Node{}
				}
				o.Nodes[name.Name] = p
			case *report:
				v.addReport(o, name.Name, p)
			case namespaceSettings:
				o.Paused, o.Acknowledged = p.paused, p.acknowledged
			}
		}
	}
	return o
}

// countPodRefs counts the pods that an entry or a reservation names.
func (v *view) countPodRefs(i *item, n int) {
	count := func(podRef string) {
		if v.podRefs[podRef] += n; v.podRefs[podRef] == 0 {
			delete(v.podRefs, podRef)
		}
	}
	if i == nil {
		return
	}
	switch p := i.parsed.(type) {
	case *ippool.Pool:
		for k := range p.Allocations {
			count(p.Allocations[k].PodRef)
		}
	case *ippool.Reservation:
		count(p.PodRef)
	}
}
