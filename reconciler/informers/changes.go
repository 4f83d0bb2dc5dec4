package informers

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// maxChanges is for how many objects changes are kept one by one: where there are
// more, a pass over everything costs less.
const maxChanges = 5000

// changes are the names of objects that have changed.
type changes struct {
	pools, reservations, pods map[types.NamespacedName]bool
	nodes                     map[string]bool // those of reports and their Leases
}

func newChanges() *changes {
	return &changes{map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}, map[string]bool{}}
}

// recordChange takes in that an object has changed. What a Node or a definition changes is
// not known by name: then only a pass over everything tells.
func (v *view) recordChange(before, i *item, affects bool) {
	c := v.changes
	if c == nil {
		return
	}
	switch i.parsed.(type) {
	case *report:
		if unreadable(before) || unreadable(i) {
			v.changes = nil
			return
		}
		c.nodes[i.Name] = true
	case *coordinationv1.Lease:
		c.nodes[i.Name] = true
	case *ippool.Pool:
		c.pools[i.NamespacedName] = true
	case *ippool.Reservation:
		c.reservations[i.NamespacedName] = true
	case *podstate.Pod:
		c.pods[i.NamespacedName] = true
	default:
		if affects {
			v.changes = nil
		}
	}
	if len(c.pools)+len(c.reservations)+len(c.pods)+len(c.nodes) > maxChanges {
		v.changes = nil
	}
}

func unreadable(i *item) bool {
	if i == nil {
		return false
	}
	r, ok := i.parsed.(*report)
	return ok && r.err != nil
}

// Changes returns what has changed since the last List or Changes; nil where that is not
// known and everything must be observed. The error is ErrCacheUnverified, as that of List.
func (s *Source) Changes(ctx context.Context) (*judge.Live, error) {
	session, err := s.verifiedSession(ctx)
	if err != nil {
		return nil, err
	}
	return session.view.changesSince(), nil
}

func (v *view) changesSince() *judge.Live {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.changes
	if c == nil {
		return nil
	}
	v.changes = newChanges()
	live := &judge.Live{
		Now:  v.now(),
		Pods: map[types.NamespacedName]*podstate.Pod{}, Pools: map[types.NamespacedName]*ippool.Pool{},
		Reservations: map[types.NamespacedName]*ippool.Reservation{}, Reports: map[string]*podstate.Report{},
	}
	for name := range c.pools {
		live.Pools[name], _ = v.parsed(ippool.PoolResource.Resource, name).(*ippool.Pool)
	}
	for name := range c.reservations {
		live.Reservations[name], _ = v.parsed(ippool.ReservationResource.Resource, name).(*ippool.Reservation)
	}
	for name := range c.pods {
		live.Pods[name], _ = v.parsed("pods", name).(*podstate.Pod)
	}
	for name := range c.nodes {
		r, there := v.parsed(v1alpha1.Resource().Resource, types.NamespacedName{Name: name}).(*report)
		switch {
		case !there: // a Lease alone says nothing
			live.Reports[name] = nil
		case r.err == nil: // else nothing new is known of the node
			live.Reports[name] = v.reportOf(name, r, live.Now)
		}
	}
	return live
}

// parsed is what was parsed of an object; nil if there is none.
func (v *view) parsed(resource string, name types.NamespacedName) any {
	if i := v.objects[resource][name]; i != nil {
		return i.parsed
	}
	return nil
}
