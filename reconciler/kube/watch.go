package kube

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Revision returns the revision of the etcd that stores a resource, read by quorum: an API server may use several. RBAC
// may allow only the namespace or the name, if given.
func (c *Cluster) Revision(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (uint64, error) {
	var text string
	opts := byName(name)
	opts.Limit = 1
	err := c.call(ctx, func(ctx context.Context) error {
		list, err := c.objects.Resource(r).Namespace(namespace).List(ctx, opts)
		if err == nil {
			text = list.GetResourceVersion()
		}
		return err
	})
	if err != nil {
		return 0, c.explainError("list "+r.Resource, err, "grant list on them")
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("list %s: resourceVersion %q is not a number", r.Resource, text)
	}
	return revision, nil
}
