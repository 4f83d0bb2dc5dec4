package informers

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
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

// transform is a transform: it replaces an object by what was parsed of it.
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

// view is what the watches have told so far: by resource, then name.
type view struct {
	mu           sync.Mutex
	objects      map[string]map[types.NamespacedName]*item
	newest       map[string]uint64 // resourceVersion so far, by resource
	restored     string            // which object came at an older one than before
	podRefs      map[string]int    // how many entries and reservations name a pod
	changes      *changes          // since the last observation; nil where there is none or they are too many
	now          func() time.Time  // the API server's time
	onChange     func(what string)
	leases       string // the namespace of the agents' Leases
	knownReports *knownReports
}

func newView(leases string, now func() time.Time, changed func(string)) *view {
	return &view{objects: map[string]map[types.NamespacedName]*item{}, newest: map[string]uint64{}, podRefs: map[string]int{}, leases: leases, now: now, onChange: changed, knownReports: newKnownReports()}
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
	v.knownReports.added(resource, i.NamespacedName)
	if before != nil && before.UID == i.UID && revision(i) < revision(before) {
		v.restored = fmt.Sprintf("%s %s is at resourceVersion %s after %s", resource, i.NamespacedName, i.ResourceVersion, before.ResourceVersion)
	}
	v.countPodRefs(before, -1)
	v.countPodRefs(i, 1)
	matters := v.affectsVerdict(before, i)
	v.recordChange(before, i, matters)
	v.mu.Unlock()
	if matters {
		v.onChange(resource)
	}
}

func (v *view) remove(resource string, i *item) {
	v.mu.Lock()
	v.countPodRefs(v.objects[resource][i.NamespacedName], -1)
	delete(v.objects[resource], i.NamespacedName)
	v.knownReports.removed(resource, i.NamespacedName, v.now())
	v.newest[resource] = max(v.newest[resource], revision(i))
	matters := v.affectsVerdict(i, nil)
	v.recordChange(nil, i, matters)
	v.mu.Unlock()
	if matters {
		v.onChange(resource)
	}
}

func revision(i *item) uint64 { return number(i.ResourceVersion) }

// number is 0 for a resourceVersion that is none.
func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// affectsVerdict reports whether a change may change a verdict. One of the two may be nil.
func (v *view) affectsVerdict(before, after *item) bool {
	if before == nil && after == nil {
		return false
	}
	one := after
	if one == nil {
		one = before
	}
	switch one.parsed.(type) {
	case *podstate.Pod:
		return (v.podUsesPool(before) || v.podUsesPool(after)) &&
			!same(before, after, func(p *podstate.Pod) { p.ResourceVersion = "" })
	case *podstate.Node:
		return !same(before, after, func(n *podstate.Node) { n.ResourceVersion = "" })
	case *ippool.NAD:
		return !same(before, after, func(n *ippool.NAD) { n.ResourceVersion = "" })
	case *coordinationv1.Lease:
		return v.leaseAffectsVerdict(before, after)
	case namespaceSettings:
		return before == nil || after == nil || before.parsed != after.parsed
	}
	return true
}

// same compares what was parsed, but for what trim removes.
func same[T any](before, after *item, trim func(*T)) bool {
	if before == nil || after == nil {
		return false
	}
	a, b := *before.parsed.(*T), *after.parsed.(*T)
	trim(&a)
	trim(&b)
	return reflect.DeepEqual(a, b)
}

// podUsesPool reports whether a pod has to do with a pool: it is named there, or
// carries an address of its range.
func (v *view) podUsesPool(i *item) bool {
	if i == nil {
		return false
	}
	p := i.parsed.(*podstate.Pod)
	if v.podRefs[p.String()] > 0 {
		return true
	}
	of := func(a netip.Addr) bool {
		for _, i := range v.objects[ippool.PoolResource.Resource] {
			if p := i.parsed.(*ippool.Pool); p.Problem == "" && p.Range.Contains(a) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(p.IPs, of) ||
		slices.ContainsFunc(p.Interfaces, func(i podstate.Interface) bool { return slices.ContainsFunc(i.Addresses, of) })
}

// leaseAffectsVerdict tells an agent that is heard again, or of something else, from
// the renewals that go on all the time.
func (v *view) leaseAffectsVerdict(before, after *item) bool {
	if after == nil || v.objects[v1alpha1.Resource().Resource][types.NamespacedName{Name: after.Name}] == nil {
		return false
	}
	if before == nil {
		return true
	}
	a, b := before.parsed.(*coordinationv1.Lease), after.parsed.(*coordinationv1.Lease)
	heard := podstate.Report{Renewed: podstate.Heard(a)}
	return !maps.Equal(a.Annotations, b.Annotations) || !heard.Fresh(v.now())
}

// observe puts together what is to be judged. What a look cannot know from the
// watches is taken from the last full look, where there was one.
func (v *view) observe(last *reconciler.Observation) *reconciler.Observation {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changes = newChanges()
	o := &reconciler.Observation{
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

func (v *view) addReport(o *reconciler.Observation, name string, r *report) {
	if r.err != nil {
		o.ReportsUnreadable = true
		o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", name, r.err))
		return
	}
	o.Reports = append(o.Reports, v.reportOf(name, r, o.Now))
}

// reportOf is a node's report with its Lease.
func (v *view) reportOf(name string, r *report, now time.Time) *podstate.Report {
	lease := v.leaseOf(name)
	if r.previous != nil && now.Sub(r.previousSince) < leaseDelay && verifies(lease, r.previous) {
		r = r.previous
		if v.changes != nil {
			v.changes.nodes[name] = true // when it was waited for long enough
		}
	}
	return podstate.ReadHashedReport(r.SandboxReport, r.hash, lease)
}

// leaseDelay is for how long an agent may have written a report and not yet the
// Lease that vouches for it.
const leaseDelay = 5 * time.Second

// retainVerified keeps, beside a report that has just come, the one before it while
// the agent's Lease still vouches for that: else each report would make its node
// unheard until the Lease is written, and what ripens would begin again.
func (v *view) retainVerified(before, after *item) {
	r, ok := after.parsed.(*report)
	if !ok || before == nil {
		return
	}
	old := before.parsed.(*report)
	if old.previous != nil && verifies(v.leaseOf(after.Name), old.previous) {
		old = old.previous
	}
	if r.err == nil && old.err == nil && old.hash != r.hash && verifies(v.leaseOf(after.Name), old) {
		kept := *old
		kept.previous = nil
		r.previous, r.previousSince = &kept, v.now()
	}
}

func (v *view) leaseOf(node string) *coordinationv1.Lease {
	if i := v.objects["leases"][types.NamespacedName{Namespace: v.leases, Name: node}]; i != nil {
		return i.parsed.(*coordinationv1.Lease)
	}
	return nil
}

func verifies(l *coordinationv1.Lease, r *report) bool {
	return l != nil && r.hash != "" && l.Annotations[v1alpha1.HashAnnotation] == r.hash
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
