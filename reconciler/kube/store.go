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

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

// The Leases in the reconciler's namespace, and their annotations. Only OwnLease has a holder.
const (
	OwnLease           = "ip-reconcile"               // elects the leader
	ReleasedAnnotation = "ip-reconcile.dev/released"  // what the breaker counts; the elector keeps it
	RestoreLease       = "ip-reconcile-restore"       // the etcd restore state
	RestoreAnnotation  = "ip-reconcile.dev/restore"   // that state as JSON
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
func (c *Cluster) BreakerStore() reconciler.StateStore {
	return leaseAnnotation{c, OwnLease, ReleasedAnnotation}
}

// RestoreStore keeps the etcd restore state. It may be too long for OwnLease, which is written every 2 s.
func (c *Cluster) RestoreStore() reconciler.StateStore {
	return leaseAnnotation{c, RestoreLease, RestoreAnnotation}
}

// PassStore keeps the record of the last full pass. On OwnLease the elector would meet a conflict after each pass.
func (c *Cluster) PassStore() reconciler.StateStore {
	return leaseAnnotation{c, PassLease, PassAnnotation}
}

// leaseAnnotation is a StateStore in an annotation of a Lease in the reconciler's namespace.
type leaseAnnotation struct {
	c                 *Cluster
	lease, annotation string
}

// Update implements reconciler.StateStore. It creates a missing Lease, and reads the Lease again after a conflict.
func (a leaseAnnotation) Update(ctx context.Context, change func(kept string) (string, error)) error {
	var sent string
	isConflict := func(err error) bool {
		return ctx.Err() == nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
	}
	err := retry.OnError(retry.DefaultRetry, isConflict, func() error { return a.updateOnce(ctx, &sent, change) })
	what := fmt.Sprintf("write annotation %s of Lease %s/%s", a.annotation, a.c.Namespace, a.lease)
	return a.c.writeError(what, err, false)
}

// updateOnce is one try. What the previous try sent may have arrived although its answer did not.
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

// History returns the ring of records, in ConfigMaps of the reconciler's namespace.
func (c *Cluster) History() *audit.Ring { return &audit.Ring{Store: historyStore{c}} }

type historyStore struct{ c *Cluster }

// HistoryPrefix begins the names of the ConfigMaps, and historyKey is the key of their records.
const (
	HistoryPrefix = "ip-reconcile-history-"
	historyKey    = "records.jsonl.gz"
)

// Name implements audit.Store.
func (h historyStore) Name(object int) string { return fmt.Sprint(HistoryPrefix, object) }

// Get implements audit.Store.
func (h historyStore) Get(ctx context.Context, object int) (content []byte, version string, err error) {
	err = h.c.call(ctx, func(ctx context.Context) error {
		m, err := h.c.core.CoreV1().ConfigMaps(h.c.Namespace).Get(ctx, h.Name(object), metav1.GetOptions{})
		if err == nil {
			content, version = m.BinaryData[historyKey], m.ResourceVersion
		}
		return err
	})
	if isAbsent(err) {
		return nil, "", nil
	}
	return content, version, h.explain("read", object, err)
}

// Put implements audit.Store. It does not repeat a request, since a write may arrive whose answer does not.
func (h historyStore) Put(ctx context.Context, object int, content []byte, version string) (err error) {
	api := h.c.core.CoreV1().ConfigMaps(h.c.Namespace)
	m := &corev1.ConfigMap{BinaryData: map[string][]byte{historyKey: content}}
	m.Name, m.ResourceVersion, m.Labels = h.Name(object), version, map[string]string{NameLabel: Product}
	if version == "" {
		_, err = api.Create(ctx, m, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = api.Update(ctx, m, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return h.explain("write", object, err)
}

func (h historyStore) explain(verb string, object int, err error) error {
	kind := err
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		kind = audit.ErrForbidden
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		kind = audit.ErrConflict
	}
	//nolint:errorlint // only text
	return fmt.Errorf("%s ConfigMap %s/%s: %w: %v", verb, h.c.Namespace, h.Name(object), kind, innermost(err))
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
