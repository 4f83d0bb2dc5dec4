package kube

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

// HistoryPrefix begins the names of the ConfigMaps in the reconciler's namespace that keep the history.
const HistoryPrefix = "ip-reconcile-history-"

// historyKey is the key of the records in such a ConfigMap.
const historyKey = "records.jsonl.gz"

// History returns the ring of records in the cluster.
func (c *Cluster) History() *audit.Ring { return &audit.Ring{Store: historyStore{c}} }

type historyStore struct{ c *Cluster }

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

// Put implements audit.Store. It does not repeat a request: the write may have arrived without an answer.
func (h historyStore) Put(ctx context.Context, object int, content []byte, version string) (err error) {
	api, m := h.c.core.CoreV1().ConfigMaps(h.c.Namespace), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: h.Name(object), ResourceVersion: version,
			Labels: map[string]string{NameLabel: Product}},
		BinaryData: map[string][]byte{historyKey: content},
	}
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
	return fmt.Errorf("%s ConfigMap %s/%s: %w (%v)", verb, h.c.Namespace, h.Name(object), kind, err) //nolint:errorlint
}

// WhoAmI returns the user name of this account.
func (c *Cluster) WhoAmI(ctx context.Context) (name string, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		review, err := c.core.AuthenticationV1().SelfSubjectReviews().
			Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err == nil {
			name = review.Status.UserInfo.Username
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("ask for the own user name: %w", err)
	}
	return name, nil
}
