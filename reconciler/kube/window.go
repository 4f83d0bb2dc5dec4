package kube

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

const (
	// OwnLease is the Lease in the reconciler's namespace by which one of several
	// replicas leads.
	OwnLease = "ip-reconcile"
	// ReleasedAnnotation on it is what the breaker counts. An elector that renews the
	// Lease keeps it.
	ReleasedAnnotation = "ip-reconcile.dev/released"
	// RestoreLease is the Lease in the reconciler's namespace that has what is known of
	// restores of etcd. Nobody holds it.
	RestoreLease = "ip-reconcile-restore"
	// RestoreAnnotation on it is that.
	RestoreAnnotation = "ip-reconcile.dev/restore"
	// PassLease is the Lease in the reconciler's namespace that tells of the last full pass.
	// Nobody holds it.
	PassLease = "ip-reconcile-last-pass"
	// PassAnnotation on it is a reconciler.PassRecord.
	PassAnnotation = "ip-reconcile.dev/last-pass"
)

// BreakerStore keeps what the breaker counts in an annotation of OwnLease.
func (c *Cluster) BreakerStore() reconciler.StateStore {
	return leaseAnnotation{c, OwnLease, ReleasedAnnotation}
}

// RestoreStore keeps what is known of restores of etcd. It may be long, with the names of
// all nodes, and the own Lease is written every 2 s: so it is on another one.
func (c *Cluster) RestoreStore() reconciler.StateStore {
	return leaseAnnotation{c, RestoreLease, RestoreAnnotation}
}

// PassStore keeps what is told of the last full pass. It is on a Lease of its own: the elector
// that renews the own Lease every 2 s would meet a conflict after each pass.
func (c *Cluster) PassStore() reconciler.StateStore {
	return leaseAnnotation{c, PassLease, PassAnnotation}
}

// leaseAnnotation is a text in an annotation of a Lease in the reconciler's namespace.
type leaseAnnotation struct {
	c                 *Cluster
	lease, annotation string
}

// Update is a reconciler.StateStore's. The Lease is made where it is missing, and is read again where somebody else wrote it
// in between, as its holder does every 2 s.
func (a leaseAnnotation) Update(ctx context.Context, change func(kept string) (string, error)) error {
	var sent string
	isLost := func(err error) bool {
		return ctx.Err() == nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
	}
	err := retry.OnError(retry.DefaultRetry, isLost, func() error { return a.updateOnce(ctx, &sent, change) })
	if err != nil {
		return a.c.writeError(fmt.Sprintf("keep annotation %s of Lease %s/%s", a.annotation, a.c.Namespace, a.lease), err)
	}
	return nil
}

// updateOnce is one try. What was sent at the one before may have arrived although its
// answer did not.
func (a leaseAnnotation) updateOnce(ctx context.Context, sent *string, change func(kept string) (string, error)) error {
	var lease *coordinationv1.Lease
	err := a.c.call(ctx, func(ctx context.Context) (err error) {
		lease, err = a.c.lease(ctx, types.NamespacedName{Namespace: a.c.Namespace, Name: a.lease})
		return err
	})
	if err != nil {
		return err
	}
	kept := lease.Annotations[a.annotation]
	if *sent != "" && kept == *sent {
		return nil
	}
	next, err := change(kept)
	if err != nil || next == kept {
		return err
	}
	*sent = next
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, a.annotation, next)
	if next == "" {
		delete(lease.Annotations, a.annotation)
	}
	return a.c.call(ctx, func(ctx context.Context) error {
		_, err := a.c.writeLease(ctx, lease)
		return err
	})
}
