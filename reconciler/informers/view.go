package informers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
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

// view is what the watches have delivered so far.
type view struct {
	mu           sync.Mutex
	objects      map[string]map[types.NamespacedName]*item // by resource
	newest       map[string]uint64                         // resourceVersion, by resource
	restored     string                                    // which object came at an older resourceVersion than before
	changedSince map[objectKey]bool                        // since beginComparison; nil for no comparison
	now          func() time.Time                          // the API server's time
	onChange     func(what string)
	leases       string // the namespace of the agents' Leases
	reports      *knownReports
}

func newView(leases string, now func() time.Time, onChange func(what string), reports *knownReports) *view {
	return &view{objects: map[string]map[types.NamespacedName]*item{}, newest: map[string]uint64{}, leases: leases, now: now, onChange: onChange, reports: reports}
}

func (v *view) handler(resource string) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { v.set(resource, o.(*item)) },
		UpdateFunc: func(_, o any) { v.set(resource, o.(*item)) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			if i, ok := o.(*item); ok {
				v.remove(resource, i)
			}
		},
	}
}

// set takes in a new or changed object.
func (v *view) set(resource string, i *item) {
	v.mu.Lock()
	if v.objects[resource] == nil {
		v.objects[resource] = map[types.NamespacedName]*item{}
	}
	before := v.objects[resource][i.NamespacedName]
	v.objects[resource][i.NamespacedName] = i
	v.keepPrevious(before, i)
	v.reports.added(resource, i.NamespacedName)
	if before != nil && before.UID == i.UID && kube.Older(i.ResourceVersion, before.ResourceVersion) {
		v.restored = fmt.Sprintf("%s %s is at resourceVersion %s after %s", resource, i.NamespacedName, i.ResourceVersion, before.ResourceVersion)
	}
	v.changedAndUnlock(resource, before, i)
}

func (v *view) remove(resource string, i *item) {
	v.mu.Lock()
	before := v.objects[resource][i.NamespacedName]
	delete(v.objects[resource], i.NamespacedName)
	v.reports.removed(resource, i.NamespacedName, v.now())
	v.changedAndUnlock(resource, before, i)
}

// changedAndUnlock notes a change of an object, and releases mu before it reports the change.
func (v *view) changedAndUnlock(resource string, before, i *item) {
	version, _ := strconv.ParseUint(i.ResourceVersion, 10, 64)
	v.newest[resource] = max(v.newest[resource], version)
	if v.changedSince != nil {
		v.changedSince[objectKey{resource, i.NamespacedName}] = true
	}
	affects := v.affectsVerdict(before, v.objects[resource][i.NamespacedName])
	v.mu.Unlock()
	if affects {
		v.onChange(resource)
	}
}

// affectsVerdict reports whether a change may change a verdict. One of the two may be nil.
func (v *view) affectsVerdict(before, after *item) bool {
	if before == nil || after == nil {
		return true
	}
	switch a := before.parsed.(type) {
	case *podstate.Pod:
		b := *after.parsed.(*podstate.Pod)
		b.ResourceVersion, b.Selected, b.Workload = a.ResourceVersion, a.Selected, a.Workload
		return !reflect.DeepEqual(*a, b)
	case *podstate.Node:
		b := *after.parsed.(*podstate.Node)
		b.ResourceVersion = a.ResourceVersion
		return !reflect.DeepEqual(*a, b)
	case *ippool.NAD:
		b := *after.parsed.(*ippool.NAD)
		b.ResourceVersion = a.ResourceVersion
		return !reflect.DeepEqual(*a, b)
	case *coordinationv1.Lease: // agents renew theirs all the time
		was := podstate.Report{Renewed: podstate.LeaseRenewed(a)}
		hasReport := v.objects[v1alpha1.Resource().Resource][types.NamespacedName{Name: after.Name}] != nil
		return hasReport && (!maps.Equal(a.Annotations, after.parsed.(*coordinationv1.Lease).Annotations) || !was.Fresh(v.now()))
	case namespaceSettings:
		return a != after.parsed
	}
	return true
}

// observe puts together what is to be judged. What is not watched is taken
// from the last full pass, where there was one.
func (v *view) observe(last *judge.Observation) *judge.Observation {
	v.mu.Lock()
	defer v.mu.Unlock()
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

// newestVersions are the newest resourceVersions so far, by resource, and what showed that
// etcd was restored, "" if nothing did.
func (v *view) newestVersions() (newest map[string]uint64, restored string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.newest), v.restored
}
