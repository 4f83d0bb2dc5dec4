package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
)

// ErrAway: the API server does not answer, or cannot.
var ErrAway = errors.New("the API server is away")

// Ping asks for as little as possible, and returns the revision of the etcd that has
// Leases, read by quorum. The error is ErrAway; any other refusal is an answer, of
// which the revision is 0.
func (c *Cluster) Ping(ctx context.Context) (revision uint64, err error) {
	only := named(OwnLease)
	only.Limit = 1
	list, err := c.core.CoordinationV1().Leases(c.Namespace).List(ctx, only)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		revision, _ = strconv.ParseUint(list.ResourceVersion, 10, 64)
		return revision, nil
	case errors.As(err, &status) && status.Status().Code > 0 && status.Status().Code < 500:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrAway, err)
}

// Versions are those of all objects of a resource, read by quorum. The namespace,
// where given, is all that may be listed. A request that fails is not repeated: who
// asks while the API server comes back asks again.
func (c *Cluster) Versions(ctx context.Context, r schema.GroupVersionResource, namespace string) (map[types.NamespacedName]Version, error) {
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return c.metadata.Resource(r).Namespace(namespace).List(ctx, opts)
	})
	pages.PageSize, pages.FullListIfExpired = largestPage, false
	found := map[types.NamespacedName]Version{}
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		o := item.(*metav1.PartialObjectMetadata)
		found[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = Version{o.UID, o.ResourceVersion}
		return nil
	})
	if err != nil {
		return nil, c.explain("list "+r.Resource, err, "grant list on them")
	}
	return found, nil
}
