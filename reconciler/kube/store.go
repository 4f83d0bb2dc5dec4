package kube

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// The Leases in the reconciler's namespace, and their annotations. Only OwnLease has a holder.
const (
	OwnLease           = "ip-reconcile"               // elects the leader
	ReleasedAnnotation = "ip-reconcile.dev/released"  // what the breaker counts; the elector keeps it
	RestoreLease       = restore.Lease                // the etcd restore state
	RestoreAnnotation  = restore.StateAnnotation      // that state as JSON
	PassLease          = "ip-reconcile-last-pass"     // the record of the last full pass
	PassAnnotation     = "ip-reconcile.dev/last-pass" // that record, a reconciler.PassRecord
)

// The labels of deploy/.
const (
	NameLabel      = "app.kubernetes.io/name"
	ComponentLabel = "app.kubernetes.io/component"
	Product        = "ip-reconcile"
)

// BreakerStore keeps what the breaker counts in an annotation of OwnLease.
func (c *Cluster) BreakerStore() LeaseAnnotation {
	return LeaseAnnotation{c, OwnLease, ReleasedAnnotation}
}

// RestoreStore keeps the etcd restore state. It may be too long for OwnLease, which is written every 2 s.
func (c *Cluster) RestoreStore() LeaseAnnotation {
	return LeaseAnnotation{c, RestoreLease, RestoreAnnotation}
}

// PassStore keeps the record of the last full pass. On OwnLease the elector would meet a conflict after each pass.
func (c *Cluster) PassStore() LeaseAnnotation {
	return LeaseAnnotation{c, PassLease, PassAnnotation}
}

// LeaseAnnotation is a reconciler.StateStore in an annotation of a Lease in the reconciler's namespace.
type LeaseAnnotation struct {
	c                 *Cluster
	lease, annotation string
}

// Update implements reconciler.StateStore. It creates a missing Lease, and reads the Lease again after a conflict.
func (a LeaseAnnotation) Update(ctx context.Context, change func(kept string) (string, error)) error {
	var sent string
	isConflict := func(err error) bool {
		return ctx.Err() == nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
	}
	err := retry.OnError(retry.DefaultRetry, isConflict, func() error { return a.updateOnce(ctx, &sent, change) })
	what := fmt.Sprintf("write annotation %s of Lease %s/%s", a.annotation, a.c.Namespace, a.lease)
	return a.c.writeError(what, err, false)
}

// updateOnce is one try. What the previous try sent may have arrived although its answer did not.
func (a LeaseAnnotation) updateOnce(ctx context.Context, sent *string, change func(kept string) (string, error)) error {
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

// ConfigMaps are the ConfigMaps in the reconciler's namespace. Errors are the API server's.
type ConfigMaps struct{ c *Cluster }

// ConfigMaps returns the ConfigMaps in the reconciler's namespace.
func (c *Cluster) ConfigMaps() ConfigMaps { return ConfigMaps{c} }

// Namespace is their namespace.
func (m ConfigMaps) Namespace() string { return m.c.Namespace }

// Get returns a ConfigMap, nil if it does not exist. A failed request is repeated.
func (m ConfigMaps) Get(ctx context.Context, name string) (found *corev1.ConfigMap, err error) {
	err = m.c.call(ctx, func(ctx context.Context) (err error) {
		found, err = m.c.core.CoreV1().ConfigMaps(m.c.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, innermost(err)
	}
	return found, nil
}

// Create creates a ConfigMap. It does not repeat the request, since a write may arrive whose answer does not.
func (m ConfigMaps) Create(ctx context.Context, o *corev1.ConfigMap) error {
	api := m.c.core.CoreV1().ConfigMaps(m.c.Namespace)
	_, err := api.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	return innermost(err)
}

// Update replaces a ConfigMap at its resourceVersion. It does not repeat the request.
func (m ConfigMaps) Update(ctx context.Context, o *corev1.ConfigMap) error {
	api := m.c.core.CoreV1().ConfigMaps(m.c.Namespace)
	_, err := api.Update(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager})
	return innermost(err)
}

// WhoAmI returns the user name of this account.
func (c *Cluster) WhoAmI(ctx context.Context) (string, error) {
	api, review := c.core.AuthenticationV1().SelfSubjectReviews(), &authenticationv1.SelfSubjectReview{}
	review, err := api.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get the own user name: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
