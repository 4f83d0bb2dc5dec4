package informers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// FullSource is a reconciler.Source whose List reads by quorum.
type FullSource struct{ *Source }

// Full returns a source that reads by quorum, and compares the caches with what it read.
func (s *Source) Full() FullSource { return FullSource{s} }

// List reads everything by quorum and compares the caches with it. RestartFullPass makes it start again.
func (f FullSource) List(ctx context.Context) (*facts.Observation, error) {
	var before []facts.Version // of what was read before it started again
	for {
		pass, end := context.WithCancel(ctx)
		f.mu.Lock()
		f.cancelFullPass = end
		f.mu.Unlock()
		o, err := f.listAndVerify(pass)
		isRestarted := pass.Err() != nil && ctx.Err() == nil
		end()
		o.Versions = slices.Concat(before, o.Versions)
		if err == nil || !isRestarted {
			return o, err
		}
		before = o.Versions
	}
}

func (f FullSource) listAndVerify(ctx context.Context) (*facts.Observation, error) {
	f.mu.Lock()
	isSynced, failures, opens := f.isSynced, f.failures, f.opens
	f.changes = map[objectKey]bool{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes = nil
	}()
	o, err := f.Cluster.List(ctx)
	if err != nil {
		if _, older := f.differences(o); older != "" { // the next pass may not show it
			f.RecordRestore(older)
			f.OnRestore(older)
		}
		return o, err
	}
	// What the caches have had shows a restore also while they are not synced, and while a kind is refused: an API server
	// that has just started, as after a restore, forbids what it grants a moment later.
	difference, older, err := f.settle(ctx, o, isSynced)
	if err != nil {
		if older != "" {
			f.RecordRestore(older)
		}
		return o, err
	}
	o.Restored = cmp.Or(f.takeRestore(), older)
	if o.Restored == "" {
		read, others := f.readKinds(o)
		if o.Restored, err = f.compareRevisions(ctx, read); err != nil {
			return o, fmt.Errorf("compare what was read with the watches: %w", err)
		}
		if o.Restored == "" {
			o.Restored, err = f.compareRevisions(ctx, others)
		}
	}
	if o.Restored != "" {
		f.OnRestore(o.Restored)
	}
	f.mu.Lock()
	f.setMissing(o)
	f.lastFull = &facts.Observation{
		Warnings: o.Warnings, Paused: o.Paused, Acknowledged: o.Acknowledged,
		Reservations: unwatched(f.Source, ippool.ReservationResource.Resource, o.Reservations),
		NADs:         unwatched(f.Source, ippool.NADResource.Resource, o.NADs),
		Nodes:        unwatched(f.Source, "nodes", o.Nodes),
		Reports:      unwatched(f.Source, reportResource, o.Reports),
		AgentLeases:  unwatched(f.Source, leaseResource, o.AgentLeases),
	}
	f.noteMachines(o)
	f.noteRead(o)
	// A watch that was closed during the read still delivers what it lacks.
	wereOpen := f.isSynced && f.opens == opens && !slices.ContainsFunc(f.stores, (*store).isClosed)
	if isSynced && err == nil && difference == "" && o.Restored == "" {
		f.checked = opens
		if f.failures == failures {
			f.unverified = nil
		}
	}
	f.mu.Unlock()
	isBroken := o.Restored != "" || isSynced && err == nil && difference != "" && wereOpen
	if why := cmp.Or(o.Restored, difference); isBroken {
		f.Rebuild(why)
		f.OnRebuild(why)
	}
	return o, nil
}

// unwatched returns what a full pass found of a kind that cannot be watched; of others nothing is kept. The caller
// holds mu.
func unwatched[T any](s *Source, resource string, found facts.Source[T]) (kept facts.Source[T]) {
	if s.store(resource).isRefused() {
		kept = found
	}
	return kept
}

// noteRead notes which kinds a full pass could read, for those that the caches may not list. A report is fresh only if
// the Leases were read. The pause is always read, but for WithoutPause. The caller holds mu.
func (s *Source) noteRead(o *facts.Observation) {
	for _, k := range s.stores {
		k.isRead = k.resource.Resource == "namespaces" && !s.WithoutPause ||
			k.resource.Resource == leaseResource && o.AgentLeases.Or(false)
	}
	eachVersion(o, func(key objectKey, _ string) { s.store(key.resource).isRead = true })
}

// intern returns the object of the caches that equals o, so that a full pass does not have all objects twice in memory;
// otherwise o.
func (s *Source) intern(o any) any {
	var resource string
	var name types.NamespacedName
	switch o := o.(type) {
	case *ippool.Pool:
		resource, name = ippool.PoolResource.Resource, o.NamespacedName
	case *ippool.Reservation:
		resource, name = ippool.ReservationResource.Resource, o.NamespacedName
	case *podstate.Pod:
		resource, name = "pods", o.NamespacedName
	default:
		return o
	}
	s.mu.Lock()
	i := s.store(resource).objects[name]
	s.mu.Unlock()
	if i != nil && reflect.DeepEqual(i.parsed, o) {
		return i.parsed
	}
	return o
}

// settle returns differences of the caches and the observation once the caches, if synced, had time to catch up. An
// object that still differs, and that has not changed in the cache since the read began, is wrong there.
func (s *Source) settle(
	ctx context.Context, o *facts.Observation, isSynced bool,
) (difference, older string, err error) {
	agrees := func(context.Context) (bool, error) {
		difference, older = s.differences(o)
		return difference == "" || !isSynced, nil
	}
	_ = wait.PollUntilContextTimeout(ctx, s.settleTimeout/20, s.settleTimeout, true, agrees)
	return difference, older, ctx.Err()
}

// differences describes how the caches differ from an observation, but for objects that change meanwhile, and for kinds
// that are refused; "" if they agree. older names an object of any kind with an older resourceVersion than in the
// cache, which shows a restore of etcd.
func (s *Source) differences(o *facts.Observation) (difference, older string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found, backwards []string
	compare := func(k *store, key objectKey, cached, listed string) {
		if cached == listed || s.changes[key] {
			return
		}
		if kube.Older(listed, cached) {
			backwards = append(backwards, fmt.Sprintf("%s is at resourceVersion %s after %s", key, listed, cached))
		}
		switch {
		case !k.isCompared():
		case cached == "":
			found = append(found, key.String()+" is not in the cache")
		case listed == "":
			found = append(found, key.String()+" is in the cache and does not exist")
		default:
			found = append(found, fmt.Sprintf("%s has resourceVersion %s in the cache, and %s", key, cached, listed))
		}
	}
	inBoth := map[*item]bool{}
	eachVersion(o, func(key objectKey, version string) {
		k, cached := s.store(key.resource), ""
		if i := k.objects[key.NamespacedName]; i != nil {
			cached, inBoth[i] = i.ResourceVersion, true
		}
		compare(k, key, cached, version)
	})
	for _, k := range s.stores {
		if !isRead(o, k.resource.Resource) {
			continue
		}
		for name, i := range k.objects {
			if !inBoth[i] {
				compare(k, objectKey{k.resource.Resource, name}, i.ResourceVersion, "")
			}
		}
	}
	if len(backwards) > 0 {
		older = slices.Min(backwards)
	}
	switch len(found) {
	case 0:
		return "", older
	case 1:
		return found[0], older
	}
	return fmt.Sprintf("%s, and %d more", slices.Min(found), len(found)-1), older
}

// isCompared reports whether the caches should have what a full pass reads of the kind. They should if their LIST was
// answered with 404, since what is not served cannot be read. The caller holds mu.
func (s *store) isCompared() bool { return !s.isRefused() || apierrors.IsNotFound(s.noList) }

// readKinds are the kinds that an observation has all objects of, and the others.
func (s *Source) readKinds(o *facts.Observation) (read, others []*store) {
	for _, k := range s.stores {
		if isRead(o, k.resource.Resource) {
			read = append(read, k)
		} else {
			others = append(others, k)
		}
	}
	return read, others
}

// isRead reports whether an observation has all objects of a kind.
func isRead(o *facts.Observation, resource string) bool {
	switch resource {
	case leaseResource, "namespaces":
		return false
	case "nodes":
		return o.Nodes.IsKnown()
	case reportResource:
		return o.Reports.IsKnown()
	case ippool.NADResource.Resource:
		return o.NADs.IsKnown()
	case ippool.ReservationResource.Resource:
		return o.Reservations.IsKnown()
	}
	return true
}

// eachVersion calls each with the version of every object of an observation that the caches have, too.
func eachVersion(o *facts.Observation, each func(key objectKey, version string)) {
	for _, p := range o.Pools {
		each(objectKey{ippool.PoolResource.Resource, p.NamespacedName}, p.ResourceVersion)
	}
	for _, r := range o.Reservations.Or(nil) {
		each(objectKey{ippool.ReservationResource.Resource, r.NamespacedName}, r.ResourceVersion)
	}
	for name, n := range o.NADs.Or(nil) {
		each(objectKey{ippool.NADResource.Resource, name}, n.ResourceVersion)
	}
	for name, p := range o.Pods {
		each(objectKey{"pods", name}, p.ResourceVersion)
	}
	for name, n := range o.Nodes.Or(nil) {
		each(objectKey{"nodes", types.NamespacedName{Name: name}}, n.ResourceVersion)
	}
	for _, r := range o.Reports.Or(nil) {
		each(objectKey{reportResource, types.NamespacedName{Name: r.Name}}, r.ResourceVersion)
	}
}

// Leases returns whereabouts' Leases of all pools in the caches, by namespace; nil if the caches are not synced.
func (s *Source) Leases() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isSynced {
		return nil
	}
	var pools []*ippool.Pool
	for _, i := range s.store(ippool.PoolResource.Resource).objects {
		pools = append(pools, i.parsed.(*ippool.Pool))
	}
	return ippool.LeasesOf(pools)
}

// RestartFullPass restarts the current quorum read, if any. Its requests may wait for an API server that is gone.
func (s *Source) RestartFullPass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelFullPass != nil {
		s.cancelFullPass()
	}
}
