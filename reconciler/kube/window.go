package kube

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// OwnLease is the Lease in the reconciler's namespace by which one of several
	// replicas leads.
	OwnLease = "ip-reconcile"
	// ReleasedAnnotation on it is what the breaker counts. An elector that renews the
	// Lease keeps it.
	ReleasedAnnotation = "ip-reconcile.dev/released"
)

// amendTries is how often what is kept is read again after somebody else wrote the
// Lease in between: its holder does so every 2 s.
const amendTries = 5

// Amend keeps what the breaker counts in an annotation of the own Lease, which is made
// where it is missing.
func (c *Cluster) Amend(ctx context.Context, change func(kept string) (string, error)) error {
	var sent string
	for try := 1; ; try++ {
		err := c.amendOnce(ctx, &sent, change)
		if err == nil {
			return nil
		}
		if try < amendTries && ctx.Err() == nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
			continue
		}
		return failed(fmt.Sprintf("keep what was released in Lease %s/%s, annotation %s", c.Namespace, OwnLease, ReleasedAnnotation), err)
	}
}

// amendOnce is one try. What was sent at the one before may have arrived although its
// answer did not.
func (c *Cluster) amendOnce(ctx context.Context, sent *string, change func(kept string) (string, error)) error {
	api := c.core.CoordinationV1().Leases(c.Namespace)
	var lease *coordinationv1.Lease
	err := c.call(ctx, func(ctx context.Context) (err error) {
		lease, err = api.Get(ctx, OwnLease, metav1.GetOptions{})
		return err
	})
	missing := absent(err)
	if missing {
		lease, err = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: OwnLease}}, nil
	}
	if err != nil {
		return err
	}
	kept := lease.Annotations[ReleasedAnnotation]
	if *sent != "" && kept == *sent {
		return nil
	}
	next, err := change(kept)
	if err != nil || next == kept {
		return err
	}
	*sent = next
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[ReleasedAnnotation] = next
	if next == "" {
		delete(lease.Annotations, ReleasedAnnotation)
	}
	return c.call(ctx, func(ctx context.Context) (err error) {
		if missing {
			_, err = api.Create(ctx, lease, metav1.CreateOptions{FieldManager: fieldManager})
		} else {
			_, err = api.Update(ctx, lease, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
}
