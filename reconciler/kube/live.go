package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// GetLive reads the named objects by quorum, pods last. Of a pool it reads the metadata first, and the rest only if the
// resourceVersion differs from the observation. Each read is repeated after transient errors: one that fails ends all.
func (c *Cluster) GetLive(
	ctx context.Context, before *facts.Observation, keys facts.LiveKeys,
) (*facts.Live, error) {
	began := time.Now()
	live := &facts.Live{Pools: map[types.NamespacedName]*ippool.Pool{}}
	known := indexed(before.Pools, func(p *ippool.Pool) types.NamespacedName { return p.NamespacedName })
	var seen versions
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, name := range keys.Pools {
		g.Go(func() error {
			return c.call(gctx, func(ctx context.Context) error {
				pool, err := c.livePool(ctx, name, known[name], &seen)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && (pool == nil || pool != known[name]) {
					live.Pools[name] = pool
				}
				return err
			})
		})
	}
	live.Reservations = readEach(gctx, g, c, keys.Reservations, c.liveReservation)
	err := g.Wait()
	if live.Versions = seen.noted(); err != nil {
		return live, err
	}
	if len(keys.Pools) > 0 {
		live.Now, _ = c.date(began) // zero where no answer is a success, as of a deleted pool
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	live.IPAMClaims = readEach(gctx, g, c, keys.IPAMClaims, c.liveIPAMClaim)
	live.Pods = readEach(gctx, g, c, keys.Pods, c.livePod)
	return live, g.Wait()
}

// readEach reads objects in the group, into a map that is complete once the group has ended.
func readEach[T any](
	ctx context.Context, g *errgroup.Group, c *Cluster, names []types.NamespacedName,
	read func(context.Context, types.NamespacedName) (T, error),
) map[types.NamespacedName]T {
	var mu sync.Mutex
	all := map[types.NamespacedName]T{}
	for _, name := range names {
		g.Go(func() error {
			return c.call(ctx, func(ctx context.Context) error {
				o, err := read(ctx, name)
				mu.Lock()
				defer mu.Unlock()
				all[name] = o
				return err
			})
		})
	}
	return all
}

func (c *Cluster) liveReservation(ctx context.Context, name types.NamespacedName) (*ippool.Reservation, error) {
	if !ippool.IsObjectName(name.Name) { // client-go would refuse some, and one read that fails ends all
		return nil, nil
	}
	o, err := c.get(ctx, ippool.ReservationResource, name)
	switch {
	case err == nil:
		return ippool.Read[ippool.Reservation](o), nil
	case isAbsent(err):
		return nil, nil
	}
	if err = c.unlessNotServed(ctx, ippool.ReservationResource, err); err == nil {
		return nil, nil
	}
	return nil, fmt.Errorf("get OverlappingRangeIPReservation %s: %w", name, err)
}

// livePool reads one pool, in full if its version is not known; nil for none.
func (c *Cluster) livePool(
	ctx context.Context, name types.NamespacedName, known *ippool.Pool, seen *versions,
) (*ippool.Pool, error) {
	if !ippool.IsObjectName(name.Name) {
		return nil, nil
	}
	m, err := c.metadata.Resource(ippool.PoolResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err == nil {
		err = checkObject(m, name)
	}
	if err == nil {
		seen.note(facts.PoolObject+name.String(), m.ResourceVersion)
		if known != nil && m.ResourceVersion == known.ResourceVersion && string(m.UID) == known.UID {
			return known, nil
		}
		var whole *unstructured.Unstructured
		if whole, err = c.get(ctx, ippool.PoolResource, name); err == nil {
			seen.note(facts.PoolObject+name.String(), whole.GetResourceVersion())
			return ippool.Read[ippool.Pool](whole), nil
		}
	}
	if isAbsent(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("get IPPool %s: %w", name, err)
}

// get reads a custom resource. An answer with another object is an error: it may be of something in between.
func (c *Cluster) get(
	ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName,
) (*unstructured.Unstructured, error) {
	o, err := c.objects.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := checkObject(o, name); err != nil {
		return nil, err
	}
	return o, nil
}

// checkObject checks that the answer to a GET is the object.
func checkObject(o metav1.Object, name types.NamespacedName) error {
	if o.GetNamespace() != name.Namespace || o.GetName() != name.Name || o.GetResourceVersion() == "" {
		return fmt.Errorf("the answer is %s/%s at resourceVersion %q, so it is not an API server's",
			o.GetNamespace(), o.GetName(), o.GetResourceVersion())
	}
	return nil
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
		case err == nil && (p.Namespace != name.Namespace || p.Name != name.Name || p.UID == ""):
			return nil, fmt.Errorf("get pod %s: the answer is %s/%s with UID %q at resourceVersion %q, so it is not an API "+
				"server's", name, p.Namespace, p.Name, p.UID, p.ResourceVersion)
		case err == nil:
			return podstate.ReadPod(p), nil
		case isAbsent(err):
			return nil, nil
		case !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("get pod %s: %w", name, err)
		}
		c.isPodGetForbidden.Store(true) // whereabouts' own ClusterRole has no get on pods before v0.9
		c.Log.Debug("Getting pods is forbidden; listing them by name")
	}
	pods, err := c.listPods(ctx, name.Namespace, byName(name.Name))
	if err != nil {
		return nil, fmt.Errorf("get pod %s: %w", name, err)
	}
	return pods[name], nil
}

// liveIPAMClaim reads whether an IPAMClaim exists; nil for none. A 404 counts only if it names this very claim: without
// the CRD it names none. A claim that cannot be read is Unread, which is no error.
func (c *Cluster) liveIPAMClaim(ctx context.Context, name types.NamespacedName) (*ippool.Claim, error) {
	claim := &ippool.Claim{NamespacedName: name}
	err := c.call(ctx, func(ctx context.Context) error {
		_, err := c.metadata.Resource(ippool.ClaimResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		return err
	})
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && isAbsent(err) {
		d := status.Status().Details
		if d != nil && d.Name == name.Name && d.Kind == ippool.ClaimResource.Resource {
			return nil, nil
		}
	}
	if err != nil {
		claim.Unread = fmt.Sprintf("cannot get IPAMClaim %s: %v", name, innermost(err))
	}
	return claim, nil
}
