package informers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// full is the Source whose List reads by quorum, and verifies the caches.
type full struct{ *Source }

// Full is the cluster as a source that reads by quorum and compares the caches with what it read.
func (s *Source) Full() reconciler.Source { return full{s} }

// List reads everything by quorum, and compares the caches with that.
func (f full) List(ctx context.Context) (*judge.Observation, error) {
	for {
		pass, end := context.WithCancel(ctx)
		f.mu.Lock()
		f.cancelFullPass = end
		f.mu.Unlock()
		o, err := f.listAndVerify(pass)
		isRestarted := pass.Err() != nil && ctx.Err() == nil
		end()
		if err == nil || !isRestarted {
			return o, err
		}
	}
}

func (f full) listAndVerify(ctx context.Context) (*judge.Observation, error) {
	f.mu.Lock()
	isSynced, failures, opens := f.synced, f.failures, f.opens
	f.changedSince = map[objectKey]bool{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changedSince = nil
	}()
	o, err := f.Cluster.List(ctx)
	if err != nil {
		return nil, err
	}
	var differs, older, backwards string
	if isSynced {
		if differs, older, err = f.settle(ctx, o); err != nil {
			return nil, err
		}
		backwards, err = f.backwards(ctx)
	}
	o.Restored = cmp.Or(f.takeRestore(), backwards, older)
	if o.Restored != "" && f.OnRestore != nil {
		f.OnRestore(o.Restored, o.Now)
	}
	f.mu.Lock()
	f.setMissed(o)
	f.last = &judge.Observation{
		Warnings: o.Warnings, ReportsUnreadable: o.ReportsUnreadable, Paused: o.Paused, Acknowledged: o.Acknowledged,
	}
	// A watch that was closed meanwhile delivers later what it has missed.
	wereOpen := f.synced && f.opens == opens && !slices.ContainsFunc(f.stores, (*store).isClosed)
	if isSynced && err == nil && differs == "" && o.Restored == "" {
		f.compared = opens
		if f.failures == failures {
			f.unverified = nil
		}
	}
	f.mu.Unlock()
	if why := cmp.Or(o.Restored, differs); isSynced && (o.Restored != "" || err == nil && differs != "" && wereOpen) {
		f.Rebuild(why)
		if f.OnRebuild != nil {
			f.OnRebuild(why)
		}
	}
	return o, nil
}

// settle returns how the caches differ from what was read, and what shows that etcd was restored. It gives the caches
// time to catch up: an object that differs although the cache has held it unchanged since before the read was lost by
// the cache, or is gone.
func (s *Source) settle(ctx context.Context, o *judge.Observation) (differs, older string, err error) {
	for end := time.Now().Add(s.settleFor); ; {
		if differs, older = s.differences(o); differs == "" || !time.Now().Before(end) {
			return differs, older, nil
		}
		select {
		case <-ctx.Done():
			return "", "", ctx.Err()
		case <-time.After(s.settleFor / 20):
		}
	}
}

// differences says how the caches differ from what was read by quorum, "" for not at all. It also returns which object
// was read at an older resourceVersion than a cache has: then etcd was restored. Objects that have changed in the
// caches since the comparison began do not count.
func (s *Source) differences(o *judge.Observation) (differs, older string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found, restored []string
	compare := func(key objectKey, cached, listed string) {
		switch {
		case cached == listed, s.changedSince[key]:
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
	read := versionsOf(o)
	for key, version := range read {
		k, cached := s.store(key.resource), ""
		if i := k.objects[key.NamespacedName]; i != nil {
			cached = i.ResourceVersion
		}
		if !apierrors.IsForbidden(k.refusal) { // it may be listed and not watched
			compare(key, cached, version)
		}
	}
	for _, k := range s.stores {
		if !isRead(o, k.resource.Resource) {
			continue
		}
		for name, i := range k.objects {
			if key := (objectKey{k.resource.Resource, name}); read[key] == "" {
				compare(key, i.ResourceVersion, "")
			}
		}
	}
	if len(restored) > 0 {
		older = slices.Min(restored)
	}
	switch len(found) {
	case 0:
		return "", older
	case 1:
		return found[0], older
	}
	return fmt.Sprintf("%s, and %d more", slices.Min(found), len(found)-1), older
}

// isRead reports whether an observation has all objects of a kind. Leases and the namespace are not in it as they are.
func isRead(o *judge.Observation, resource string) bool {
	switch resource {
	case leaseResource, "namespaces":
		return false
	case "nodes":
		return o.Nodes != nil
	case reportResource:
		return !o.ReportsUnreadable
	}
	return true
}

// versionsOf are the resourceVersions in an observation.
func versionsOf(o *judge.Observation) map[objectKey]string {
	versions := make(map[objectKey]string, len(o.Pods)+len(o.Pools)+len(o.Reservations))
	for _, p := range o.Pools {
		name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		versions[objectKey{ippool.PoolResource.Resource, name}] = p.ResourceVersion
	}
	for _, r := range o.Reservations {
		name := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
		versions[objectKey{ippool.ReservationResource.Resource, name}] = r.ResourceVersion
	}
	for name, n := range o.NADs {
		versions[objectKey{ippool.NADResource.Resource, name}] = n.ResourceVersion
	}
	for name, p := range o.Pods {
		versions[objectKey{"pods", name}] = p.ResourceVersion
	}
	for name, n := range o.Nodes {
		versions[objectKey{"nodes", types.NamespacedName{Name: name}}] = n.ResourceVersion
	}
	for _, r := range o.Reports {
		versions[objectKey{reportResource, types.NamespacedName{Name: r.Name}}] = r.ResourceVersion
	}
	return versions
}
