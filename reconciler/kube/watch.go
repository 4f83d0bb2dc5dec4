package kube

import (
	"context"
	"fmt"
	"strconv"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MayWatch returns why a resource cannot be watched: it is not served, or there is
// no right to list and watch it; "" if it can. The namespace or the name, where
// given, is all that is to be watched. An error leaves it open.
func (c *Cluster) MayWatch(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (why string, err error) {
	opts := named(name)
	opts.Limit = 1
	err = c.call(ctx, func(ctx context.Context) error {
		_, err := c.objects.Resource(r).Namespace(namespace).List(ctx, opts)
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the API server does not serve %s", r.GroupResource()), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("no right to list %s", r.GroupResource()), nil
	case err != nil:
		return "", c.explain("list "+r.Resource, err, "")
	}
	may, err := c.May(ctx, "", authorizationv1.ResourceAttributes{Verb: "watch", Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: namespace, Name: name})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // then the watch itself will fail
		return "", nil
	case err != nil:
		return "", c.explain("watch "+r.Resource, err, "")
	case !may:
		return fmt.Sprintf("no right to watch %s", r.GroupResource()), nil
	}
	return "", nil
}

// Revision is that of the etcd which has a resource, read by quorum: an API server
// may keep resources in several. The namespace or the name, where given, is all
// that may be listed.
func (c *Cluster) Revision(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (uint64, error) {
	var text string
	opts := named(name)
	opts.Limit = 1
	err := c.call(ctx, func(ctx context.Context) error {
		list, err := c.objects.Resource(r).Namespace(namespace).List(ctx, opts)
		if err == nil {
			text = list.GetResourceVersion()
		}
		return err
	})
	if err != nil {
		return 0, c.explain("list "+r.Resource, err, "grant list on them")
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the resourceVersion %q of a list of %s is no number", text, r.Resource)
	}
	return revision, nil
}
