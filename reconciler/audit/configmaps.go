package audit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ConfigMaps are the ConfigMaps of a namespace. Their errors are the API server's.
type ConfigMaps interface {
	Namespace() string
	// Get returns a ConfigMap, nil if it does not exist.
	Get(ctx context.Context, name string) (*corev1.ConfigMap, error)
	Create(ctx context.Context, m *corev1.ConfigMap) error
	// Update replaces a ConfigMap at its resourceVersion.
	Update(ctx context.Context, m *corev1.ConfigMap) error
}

// ConfigMapPrefix begins the names of the ConfigMaps of a ring, which a number ends. Its records are in recordsKey.
const (
	ConfigMapPrefix = "ip-reconcile-history-"
	recordsKey      = "records.jsonl.gz"
)

// NewConfigMapRing returns a ring in ConfigMaps, which have the given labels.
func NewConfigMapRing(api ConfigMaps, labels map[string]string) *Ring {
	return &Ring{Store: configMapStore{api, labels}}
}

type configMapStore struct {
	api    ConfigMaps
	labels map[string]string
}

// Name implements Store.
func (s configMapStore) Name(object int) string { return fmt.Sprint(ConfigMapPrefix, object) }

// Get implements Store.
func (s configMapStore) Get(ctx context.Context, object int) (content []byte, version string, err error) {
	m, err := s.api.Get(ctx, s.Name(object))
	if err != nil || m == nil {
		return nil, "", s.explain("read", object, err)
	}
	return m.BinaryData[recordsKey], m.ResourceVersion, nil
}

// Put implements Store.
func (s configMapStore) Put(ctx context.Context, object int, content []byte, version string) error {
	m := &corev1.ConfigMap{BinaryData: map[string][]byte{recordsKey: content}}
	m.Name, m.ResourceVersion, m.Labels = s.Name(object), version, s.labels
	if version == "" {
		return s.explain("write", object, s.api.Create(ctx, m))
	}
	return s.explain("write", object, s.api.Update(ctx, m))
}

func (s configMapStore) explain(verb string, object int, err error) error {
	kind := err
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		kind = ErrForbidden
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		kind = ErrConflict
	}
	//nolint:errorlint // only text
	return fmt.Errorf("%s ConfigMap %s/%s: %w: %v", verb, s.api.Namespace(), s.Name(object), kind, err)
}
