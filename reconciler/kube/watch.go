package kube

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
