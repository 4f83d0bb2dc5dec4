package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// onePass makes one pass, which waits for what is not confirmed.
func onePass(ctx context.Context, given *command, cluster *kube.Cluster) int {
	r, err := given.Reconciler(given.log)
	if err != nil {
		given.log.Error(err.Error())
		return exitNotObserved
	}
	r.Source, r.Writer, r.Window, r.Restores, r.Passes = cluster, cluster, cluster, cluster.Restores(), cluster.Passes()
	return makePass(ctx, r)
}

func makePass(ctx context.Context, r *reconciler.Reconciler) (code int) {
	serve.Once(r.Log, func() (*reconciler.Result, error) {
		out, err := r.Run(ctx)
		switch {
		case ctx.Err() != nil:
			code, err = exitDone, errors.New("it was told to end")
		case err != nil:
			code = exitNotObserved
		default:
			code, err = exitCode(out)
		}
		return out, err
	})
	return code
}

// exitCode says what a pass came to that was made to its end. What an operator has
// paused, and what waits for the agents after a restore of etcd, is no failure. A
// pass waits until nothing is unconfirmed, unless the cluster cannot be observed any more.
func exitCode(out *reconciler.Result) (code int, err error) {
	allocations, reservations, unconfirmed := 0, 0, 0
	for _, x := range out.Refused {
		switch {
		case x.Why == reconciler.Paused || x.Why == reconciler.EtcdRestored:
		case x.Why == reconciler.AwaitingConfirmation:
			unconfirmed++
		case x.Allocation != nil:
			allocations++
		default:
			reservations++
		}
	}
	switch {
	case allocations > 0:
		return exitAllocations, fmt.Errorf("%d allocations and %d reservations are stale and could not be freed", allocations, reservations)
	case reservations > 0:
		return exitReservations, fmt.Errorf("%d reservations are stale and could not be freed", reservations)
	case unconfirmed > 0:
		return exitNotObserved, fmt.Errorf("%d allocations and reservations seem stale, and the cluster could not be read until that was confirmed", unconfirmed)
	}
	return exitDone, nil
}
