package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Ping makes the smallest request, over a connection of its own. An error means that the API server is unreachable. Any
// other refusal is a restore.Answer without a revision.
func (c *Cluster) Ping(ctx context.Context) (restore.Answer, error) {
	only, before := byName(OwnLease), c.dials.Load()
	only.Limit = 1
	list, err := c.pings.Leases(c.Namespace).List(ctx, only)
	answer := restore.Answer{HasReconnected: c.dials.Load() != before}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		answer.Revision, _ = strconv.ParseUint(list.ResourceVersion, 10, 64)
		for _, l := range list.Items {
			answer.Lease = restore.LeaseVersion{Name: l.Name, UID: l.UID, ResourceVersion: l.ResourceVersion}
		}
		return answer, nil
	case errors.As(err, &status) && status.Status().Code > 0 && status.Status().Code < 500:
		return answer, nil
	}
	return restore.Answer{}, fmt.Errorf("the API server is unreachable: %w", err)
}

// leasesAlone returns a client with a connection of its own, which no other request reopens. So Ping detects an outage
// of the API server even after it has ended.
func (c *Cluster) leasesAlone(config *rest.Config) (typedcoordinationv1.LeasesGetter, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return serverTime{next, c} })
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: c.Timeout}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dials.Add(1)
		return dial(ctx, network, address)
	}
	return typedcoordinationv1.NewForConfig(config)
}

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
