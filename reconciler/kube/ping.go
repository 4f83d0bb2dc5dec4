package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// Version is which of its versions an object is.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// Versions are those of all objects of a resource, read by quorum. The namespace,
// where given, is all that may be listed.
func (c *Cluster) Versions(ctx context.Context, r schema.GroupVersionResource, namespace string) (map[types.NamespacedName]Version, error) {
	found := map[types.NamespacedName]Version{}
	for opts := (metav1.ListOptions{Limit: largestPage}); ; {
		list, err := c.metadata.Resource(r).Namespace(namespace).List(ctx, opts)
		if err != nil {
			return nil, c.explain("list "+r.Resource, err, "grant list on them")
		}
		for _, o := range list.Items {
			found[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = Version{o.UID, o.ResourceVersion}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return found, nil
		}
	}
}
