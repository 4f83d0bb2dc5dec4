package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// Recreate implements apply.Leases. Its client sends creates of reservations, and the delete of this one.
func (c *Cluster) Recreate(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error {
	objects, _, err := c.writers(func(q *http.Request) bool { return undoes(q, r) })
	if err != nil {
		return err
	}
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return c.createReservation(ctx, objects, r)
	}
	err = create()
	if errors.Is(err, apply.ErrConflict) {
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // it must complete
		err = c.deleteReservation(deleting, objects, r)
		if cancel(); err == nil {
			err = create()
		}
	}
	if errors.Is(err, apply.ErrConflict) {
		return nil
	}
	return err
}

// undoes reports whether a request creates a reservation in the namespace of this one, or deletes this one.
func undoes(q *http.Request, r *ippool.Reservation) bool {
	of := ippool.ReservationResource
	all := "/apis/" + of.Group + "/" + of.Version + "/namespaces/" + r.Namespace + "/" + of.Resource
	switch q.Method {
	case http.MethodPost:
		return strings.HasSuffix(q.URL.Path, all)
	case http.MethodDelete:
		return strings.HasSuffix(q.URL.Path, all+"/"+r.Name)
	}
	return false
}
