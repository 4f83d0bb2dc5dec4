package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// ErrUnreachable: the API server does not answer, or cannot.
var ErrUnreachable = errors.New("the API server is away")

// An Answer is what the API server says when it is asked for as little as possible.
type Answer struct {
	// Revision is that of the etcd that has Leases, read by quorum; 0 where the request was refused.
	Revision uint64
	// Lease is the version of OwnLease, which the leader renews every two seconds; zero where there is none.
	Lease Version
	// HasReconnected says that a connection had to be opened for it: the last one has ended.
	HasReconnected bool
}

// Ping asks for as little as possible, over a connection of its own. The error is ErrUnreachable; any
// other refusal is an answer, without a revision.
func (c *Cluster) Ping(ctx context.Context) (Answer, error) {
	only, before := named(OwnLease), c.dials.Load()
	only.Limit = 1
	list, err := c.pings.Leases(c.Namespace).List(ctx, only)
	answer := Answer{HasReconnected: c.dials.Load() != before}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		answer.Revision, _ = strconv.ParseUint(list.ResourceVersion, 10, 64)
		for _, l := range list.Items {
			answer.Lease = Version{l.UID, l.ResourceVersion}
		}
		return answer, nil
	case errors.As(err, &status) && status.Status().Code > 0 && status.Status().Code < 500:
		return answer, nil
	}
	return Answer{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// leasesAlone is a client with a connection of its own, which no other request opens again: by it
// a time without the API server shows although it is over when it is asked the next time.
func (c *Cluster) leasesAlone(config *rest.Config) (typedcoordinationv1.LeasesGetter, error) {
	config = rest.CopyConfig(config)
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
