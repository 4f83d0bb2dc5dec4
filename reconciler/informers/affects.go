package informers

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

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
			!same(before, after, func(p *podstate.Pod) { p.ResourceVersion, p.Selected, p.Workload = "", nil, "" })
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

// same reports whether what was parsed is equal but for what trim removes.
func same[T any](before, after *item, trim func(*T)) bool {
	if before == nil || after == nil {
		return false
	}
	a, b := *before.parsed.(*T), *after.parsed.(*T)
	trim(&a)
	trim(&b)
	return reflect.DeepEqual(a, b)
}

// podUsesPool reports whether a pool names the pod, or the pod carries an address of a
// pool's range.
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

// leaseAffectsVerdict reports whether an agent's Lease is fresh again, or is about another
// report: renewals go on all the time.
func (v *view) leaseAffectsVerdict(before, after *item) bool {
	if after == nil || v.objects[v1alpha1.Resource().Resource][types.NamespacedName{Name: after.Name}] == nil {
		return false
	}
	if before == nil {
		return true
	}
	a, b := before.parsed.(*coordinationv1.Lease), after.parsed.(*coordinationv1.Lease)
	heard := podstate.Report{Renewed: podstate.LeaseRenewed(a)}
	return !maps.Equal(a.Annotations, b.Annotations) || !heard.Fresh(v.now())
}
