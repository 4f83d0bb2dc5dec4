package kube

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// GetLive reads the named objects by quorum, pods last. Of a pool it reads the metadata first, and the rest only if the
// resourceVersion differs from the observation.
func (c *Cluster) GetLive(
	ctx context.Context, before *judge.Observation, keys reconciler.LiveKeys,
) (*judge.Live, error) {
	live := &judge.Live{
		Pools: map[types.NamespacedName]*ippool.Pool{}, Reservations: map[types.NamespacedName]*ippool.Reservation{},
		Pods: map[types.NamespacedName]*podstate.Pod{}, IPAMClaims: map[types.NamespacedName]*ippool.Claim{},
	}
	known := indexed(before.Pools, func(p *ippool.Pool) types.NamespacedName { return p.NamespacedName })
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, name := range keys.Pools {
		g.Go(func() error { return c.livePool(gctx, name, known[name], live, &mu) })
	}
	for _, name := range keys.Reservations {
		g.Go(func() error {
			r, err := c.liveReservation(gctx, name)
			mu.Lock()
			defer mu.Unlock()
			live.Reservations[name] = r
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if len(keys.Pools) > 0 {
		live.Now = c.date()
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, name := range keys.IPAMClaims {
		g.Go(func() error {
			claim := c.liveIPAMClaim(gctx, name)
			mu.Lock()
			defer mu.Unlock()
			live.IPAMClaims[name] = claim
			return nil
		})
	}
	for _, name := range keys.Pods {
		g.Go(func() error {
			p, err := c.livePod(gctx, name)
			if err != nil {
				return fmt.Errorf("get pod %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			live.Pods[name] = p
			return nil
		})
	}
	return live, g.Wait()
}

func (c *Cluster) liveReservation(ctx context.Context, name types.NamespacedName) (*ippool.Reservation, error) {
	o, err := c.get(ctx, ippool.ReservationResource, name)
	switch {
	case err == nil:
		return ippool.Read[ippool.Reservation](o), nil
	case isAbsent(err), apierrors.IsNotFound(err) && c.lacks(ctx, ippool.ReservationResource):
		return nil, nil
	}
	return nil, fmt.Errorf("get OverlappingRangeIPReservation %s: %w", name, err)
}

// livePool reads one pool in full if its version is not known.
func (c *Cluster) livePool(
	ctx context.Context, name types.NamespacedName, known *ippool.Pool, live *judge.Live, mu *sync.Mutex,
) error {
	m, err := c.metadata.Resource(ippool.PoolResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	changed := err == nil && (known == nil || m.ResourceVersion != known.ResourceVersion || string(m.UID) != known.UID)
	var whole *unstructured.Unstructured
	if changed {
		whole, err = c.get(ctx, ippool.PoolResource, name)
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case isAbsent(err):
		live.Pools[name] = nil
	case err != nil:
		return fmt.Errorf("get IPPool %s: %w", name, err)
	case changed:
		live.Pools[name] = ippool.Read[ippool.Pool](whole)
	}
	if changed && known != nil && Older(m.ResourceVersion, known.ResourceVersion) {
		live.Restored = fmt.Sprintf("IPPool %s is at resourceVersion %s after %s",
			name, m.ResourceVersion, known.ResourceVersion)
	}
	return nil
}

// get reads a custom resource. An answer with another object is an error: it may be of something in between.
func (c *Cluster) get(
	ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName,
) (*unstructured.Unstructured, error) {
	o, err := c.objects.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if o.GetNamespace() != name.Namespace || o.GetName() != name.Name || o.GetResourceVersion() == "" {
		return nil, fmt.Errorf("the answer is %s/%s at resourceVersion %q, so it is not an API server's",
			o.GetNamespace(), o.GetName(), o.GetResourceVersion())
	}
	return o, nil
}

// Older reports whether resourceVersion a of a resource is older than b; false where one of them is invalid.
func Older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// livePod reads a pod; nil for none. Where RBAC forbids GET, it uses a LIST by name.
func (c *Cluster) livePod(ctx context.Context, name types.NamespacedName) (*podstate.Pod, error) {
	if !c.isPodGetForbidden.Load() {
		p, err := c.core.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			return podstate.ReadPod(p), nil
		case isAbsent(err):
			return nil, nil
		case !apierrors.IsForbidden(err):
			return nil, err
		}
		c.isPodGetForbidden.Store(true) // whereabouts' own ClusterRole has no get on pods before v0.9
		c.Log.Debug("Getting pods is forbidden; listing them by name")
	}
	pods, err := c.listPods(ctx, name.Namespace, byName(name.Name))
	return pods[name], err
}
