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
