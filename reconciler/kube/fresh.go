package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// parallel is how many requests a fresh look has under way: it is made while
// whereabouts' Lease is held, and ADDs wait for that.
const parallel = 16

// Fresh reads pools, reservations and pods anew, pods last, and puts them into
// the place of what was observed. What is not named stays as it was seen.
func (c *Cluster) Fresh(ctx context.Context, before *reconciler.Observation, need reconciler.Need) (*reconciler.Observation, error) {
	o := *before
	dated, date := withDate(ctx)
	pools := make([]*ippool.Pool, len(need.Pools))
	reservations := make([]*ippool.Reservation, len(need.Reservations))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, name := range need.Pools {
		g.Go(func() (err error) {
			ctx := gctx
			if i == 0 {
				ctx = dated // the one whose Date counts; its context is not the group's
			}
			u, err := c.objects.Resource(ippool.PoolResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
			if err == nil {
				pools[i] = ippool.ReadPool(u)
			}
			return found(err, "get IPPool %s", name)
		})
	}
	for i, name := range need.Reservations {
		g.Go(func() error {
			u, err := c.objects.Resource(ippool.ReservationResource).Namespace(name.Namespace).Get(gctx, name.Name, metav1.GetOptions{})
			if err == nil {
				reservations[i] = ippool.ReadReservation(u)
			}
			return found(err, "get OverlappingRangeIPReservation %s", name)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if len(need.Pools) > 0 {
		o.Now = *date
	}
	replacePools(&o, before, need, pools)
	named := map[types.NamespacedName]bool{}
	for _, name := range need.Reservations {
		named[name] = true
	}
	o.Reservations = slices.DeleteFunc(slices.Clone(before.Reservations), func(r *ippool.Reservation) bool {
		return named[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	})
	for _, r := range reservations {
		if r != nil {
			o.Reservations = append(o.Reservations, r)
		}
	}
	pods, err := c.freshPods(ctx, before.Pods, need.Pods)
	o.Pods = pods
	return &o, err
}

// found lets what is not there be absent: that is an answer.
func found(err error, what string, name types.NamespacedName) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(what+": %w", name, err)
}

func replacePools(o, before *reconciler.Observation, need reconciler.Need, fresh []*ippool.Pool) {
	o.Pools = slices.Clone(before.Pools)
	for i, name := range need.Pools {
		at := slices.IndexFunc(o.Pools, func(p *ippool.Pool) bool { return p.Namespace == name.Namespace && p.Name == name.Name })
		switch p := fresh[i]; {
		case p == nil && at >= 0:
			o.Pools = slices.Delete(o.Pools, at, at+1)
		case p != nil && at >= 0:
			if older(p, o.Pools[at]) {
				o.Restored = fmt.Sprintf("IPPool %s is at resourceVersion %s after %s", p.Ref(), p.ResourceVersion, o.Pools[at].ResourceVersion)
			}
			o.Pools[at] = p
		case p != nil:
			o.Pools = append(o.Pools, p)
		}
	}
}

func older(now, before *ippool.Pool) bool {
	a, errA := strconv.ParseUint(now.ResourceVersion, 10, 64)
	b, errB := strconv.ParseUint(before.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && a < b
}

// freshPods reads the pods concerned, one GET each, or a LIST of a namespace
// where most of what it has is concerned; and by name with a LIST where there
// is no right to GET.
func (c *Cluster) freshPods(ctx context.Context, before map[types.NamespacedName]*podstate.Pod, names []types.NamespacedName) (map[types.NamespacedName]*podstate.Pod, error) {
	pods := maps.Clone(before)
	perNamespace := map[string]int{}
	for name := range before {
		perNamespace[name.Namespace]++
	}
	var mu sync.Mutex
	put := func(namespace string, concerned []types.NamespacedName, fresh map[types.NamespacedName]*podstate.Pod) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range concerned {
			delete(pods, name)
		}
		maps.Copy(pods, fresh)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for namespace, concerned := range byNamespace(names) {
		if len(concerned) > 10 && perNamespace[namespace] <= 2*pageSize && perNamespace[namespace] <= 10*len(concerned) {
			g.Go(func() error {
				fresh := map[types.NamespacedName]*podstate.Pod{}
				if err := c.listPods(gctx, namespace, metav1.ListOptions{}, fresh); err != nil {
					return fmt.Errorf("list pods in %s: %w", namespace, err)
				}
				put(namespace, concerned, fresh)
				return nil
			})
			continue
		}
		for _, name := range concerned {
			g.Go(func() error {
				fresh, err := c.freshPod(gctx, name)
				if err != nil {
					return fmt.Errorf("get pod %s: %w", name, err)
				}
				put(namespace, []types.NamespacedName{name}, fresh)
				return nil
			})
		}
	}
	return pods, g.Wait()
}

func byNamespace(names []types.NamespacedName) map[string][]types.NamespacedName {
	groups := map[string][]types.NamespacedName{}
	for _, n := range names {
		groups[n.Namespace] = append(groups[n.Namespace], n)
	}
	return groups
}

func (c *Cluster) freshPod(ctx context.Context, name types.NamespacedName) (map[types.NamespacedName]*podstate.Pod, error) {
	fresh := map[types.NamespacedName]*podstate.Pod{}
	if !c.noGet.Load() {
		p, err := c.core.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			fresh[name] = podstate.ReadPod(p)
			return fresh, nil
		case apierrors.IsNotFound(err):
			return fresh, nil
		case !apierrors.IsForbidden(err):
			return nil, err
		}
		c.noGet.Store(true) // whereabouts' own ClusterRole has no get on pods before v0.9
		c.Log.Debug("no right to get pods: they are listed by name instead")
	}
	err := c.listPods(ctx, name.Namespace, named(name.Name), fresh)
	return fresh, err
}
