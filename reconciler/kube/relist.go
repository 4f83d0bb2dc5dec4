package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Relist reads again what is not a pod or a reservation: of pools, nodes and
// reports the metadata, and in full only those that have changed.
func (c *Cluster) Relist(ctx context.Context, before *judge.Observation) (*judge.Observation, error) {
	o := &judge.Observation{
		Reservations: before.Reservations, Pods: before.Pods,
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.refreshPools(gctx, o, before.Pools) })
	put := c.readOtherKinds(gctx, g, before)
	if err := g.Wait(); err != nil {
		return nil, err
	}
	put(o)
	if o.Revision < before.Revision {
		o.Restored = fmt.Sprintf("IPPools are at resourceVersion %d after %d", o.Revision, before.Revision)
	}
	return o, nil
}

func (c *Cluster) refreshPools(ctx context.Context, o *judge.Observation, before []*ippool.Pool) error {
	known := map[types.NamespacedName]*ippool.Pool{}
	for _, p := range before {
		known[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	}
	dated, date := withDate(ctx)
	pools, revision, err := relistChanged(dated, c, ippool.PoolResource, known,
		func(p *ippool.Pool) Version { return Version{types.UID(p.UID), p.ResourceVersion} },
		func(ctx context.Context, namespace string, only metav1.ListOptions) ([]*ippool.Pool, string, error) {
			return listCustom(ctx, c, listing{resource: ippool.PoolResource, namespace: namespace, only: only, first: firstPageOfPools}, ippool.DecodePools)
		})
	if err != nil {
		return c.explainPools(err)
	}
	o.Pools, o.Now = pools, date()
	o.Revision, _ = strconv.ParseUint(revision, 10, 64)
	return nil
}

// relistChanged reads the objects of a resource, by namespace and name, and returns the
// revision of the list. What is known at the very version at which it is now is
// taken as it was read: a version is given once, save by an etcd that was restored,
// which the revision tells; and a patch tests the entry as well. The others are read
// again, each by name, or all where they are many or nothing is known.
func relistChanged[T any](ctx context.Context, c *Cluster, resource schema.GroupVersionResource, known map[types.NamespacedName]T,
	versionOf func(T) Version, list func(ctx context.Context, namespace string, only metav1.ListOptions) ([]T, string, error)) (all []T, revision string, err error) {
	if len(known) == 0 {
		return list(ctx, "", metav1.ListOptions{})
	}
	versions, revision, err := c.listVersions(ctx, resource)
	if err != nil {
		return nil, "", err
	}
	names := make([]types.NamespacedName, 0, len(versions))
	var changed []types.NamespacedName
	for name, now := range versions {
		names = append(names, name)
		if o, there := known[name]; !there || versionOf(o) != now {
			changed = append(changed, name)
		}
	}
	if len(changed) > max(parallel, len(versions)/10) {
		return list(ctx, "", metav1.ListOptions{})
	}
	again := map[types.NamespacedName]T{}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, name := range changed {
		g.Go(func() error {
			found, _, err := list(gctx, name.Namespace, named(name.Name))
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(found) == 1 {
				again[name] = found[0]
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", err
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		if o, there := again[name]; there {
			all = append(all, o)
		} else if o, there := known[name]; there && versionOf(o) == versions[name] {
			all = append(all, o)
		}
	}
	return all, revision, nil
}
