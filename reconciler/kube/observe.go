package kube

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// List reads everything, by quorum: reservations, then pools, pods last. An
// ADD writes the pool before the reservation and needs its pod before either,
// so that whatever was seen has its owner in what is read after it. What else
// there is does not depend on ADDs, and is read in parallel to reservations and pools.
func (c *Cluster) List(ctx context.Context) (*judge.Observation, error) {
	o := &judge.Observation{}
	var reservations []*ippool.Reservation
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var err error
		reservations, _, err = listCustom(gctx, c, listing{resource: ippool.ReservationResource}, ippool.DecodeReservations)
		if err = c.optional(o, "OverlappingRangeIPReservations", err); err != nil {
			return err
		}
		return c.readPools(gctx, o)
	})
	put := c.readOtherKinds(gctx, g, &judge.Observation{})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	o.Reservations = reservations
	put(o)
	o.Pods = map[types.NamespacedName]*podstate.Pod{}
	var competing []string
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error {
		return c.explain("list pods", c.listPods(gctx, "", metav1.ListOptions{}, o.Pods), "grant list on pods")
	})
	g.Go(func() error {
		competing = c.competingReconcilers(gctx, o.Pools)
		return nil
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	o.Warnings = append(o.Warnings, competing...)
	return o, nil
}

// Pools are the IPPools alone, read by quorum.
func (c *Cluster) Pools(ctx context.Context) ([]*ippool.Pool, error) {
	o := &judge.Observation{}
	err := c.readPools(ctx, o)
	return o.Pools, err
}

func (c *Cluster) readPools(ctx context.Context, o *judge.Observation) error {
	dated, date := withDate(ctx)
	pools, revision, err := listCustom(dated, c, listing{resource: ippool.PoolResource, first: firstPageOfPools}, ippool.DecodePools)
	if err != nil {
		return c.explainPools(err)
	}
	o.Pools, o.Now = pools, date()
	o.Revision, _ = strconv.ParseUint(revision, 10, 64)
	return nil
}

// optional lets an observation go on without a kind that is not served or must not be
// read: what is then unknown makes verdicts more careful, never less.
func (c *Cluster) optional(o *judge.Observation, kind string, err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err) && c.asWebPage(err) == nil:
		return nil
	case apierrors.IsForbidden(err) && kind != "OverlappingRangeIPReservations":
		o.Warnings = append(o.Warnings, fmt.Sprintf("no right to list %s: judged without them", kind))
		return nil
	}
	return c.explain("list "+kind, err, "grant list on them")
}
