package reconciler_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// session is a reconciler's session on the simulator.
type session struct {
	*simulator
	held   context.Context
	leases []string
	began  time.Time

	forbidden []string
}

func (s *session) Leases() []string { return s.leases }

func (s *session) Forbidden() []string { return s.forbidden }

func (s *session) Until() time.Time { return s.began.Add(2 * time.Second) }

func (s *session) IsOpen() bool { return s.held.Err() == nil && time.Since(s.began) < 4*time.Second }

func (s *session) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (string, error) {
	return s.patch(ctx, p, patch)
}

func (s *session) DeleteReservation(ctx context.Context, r *ippool.Reservation) error {
	return s.delete(ctx, r)
}

func (s *session) CreatePool(ctx context.Context, p *ippool.Pool, entries []ippool.NewEntry) (string, error) {
	s.writing(ctx, "create "+p.Name)
	done, err := s.call(ctx, "createpool", p.Name)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.create(fakeapi.Pools, p.AsNew(entries)); err != nil {
		return "", err
	}
	return s.pool(p.Name).GetResourceVersion(), done()
}

func (s *session) CreateReservation(ctx context.Context, r *ippool.Reservation) error {
	return s.createReservation(ctx, r)
}

// DeletePool makes the request of a real cluster.
func (s *session) DeletePool(ctx context.Context, r *ippool.Removal) error {
	at := r.Pool()
	s.writing(ctx, "deletepool "+at.Name)
	done, err := s.call(ctx, "deletepool", at.Name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	uid, version := r.Version()
	options, err := json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: (*types.UID)(&uid), ResourceVersion: &version}})
	if err != nil {
		return err
	}
	if s.pool(at.Name) != nil {
		err = s.send(http.MethodDelete, fakeapi.At(fakeapi.Pools, at.Namespace, at.Name), options)
	}
	return cmp.Or(err, done())
}

// Recreate makes the requests of a real cluster.
func (s *simulator) Recreate(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error {
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return s.createReservation(ctx, r)
	}
	err := create()
	if errors.Is(err, apply.ErrConflict) {
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err = s.delete(deleting, r); err == nil {
			err = create()
		}
	}
	if errors.Is(err, apply.ErrConflict) {
		return nil
	}
	return err
}

func (s *simulator) createReservation(ctx context.Context, r *ippool.Reservation) error {
	done, err := s.call(ctx, "create", r.Name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.create(fakeapi.Reservations, r.AsNew()), done())
}

func (s *simulator) patch(ctx context.Context, p *ippool.Pool, patch []byte) (string, error) {
	s.writing(ctx, "patch "+p.Name)
	done, err := s.call(ctx, "patch", p.Name)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.entries(p.Name))
	if err := s.send(http.MethodPatch, fakeapi.At(fakeapi.Pools, p.Namespace, p.Name), patch); err != nil {
		return "", err
	}
	if len(s.holds) > 0 {
		s.holds[len(s.holds)-1].removed += before - len(s.entries(p.Name))
	}
	return s.pool(p.Name).GetResourceVersion(), done()
}

func (s *simulator) delete(ctx context.Context, r *ippool.Reservation) error {
	s.writing(ctx, "delete "+r.Name)
	done, err := s.call(ctx, "delete", r.Name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := types.UID(r.UID)
	options, err := json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid,
		ResourceVersion: &r.ResourceVersion}})
	if err != nil {
		return err
	}
	if s.reservation(r.Name) != nil {
		err = s.send(http.MethodDelete, fakeapi.At(fakeapi.Reservations, r.Namespace, r.Name), options)
	}
	return cmp.Or(err, done())
}

func (s *simulator) create(resource string, u *unstructured.Unstructured) error {
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, fakeapi.At(resource, u.GetNamespace(), ""), text)
}

// send sends a write to the API server. The error is what a real cluster returns. The caller holds mu.
func (s *simulator) send(method string, to fakeapi.Key, body []byte) error {
	switch a := s.api.Serve(&fakeapi.Request{Key: to, Method: method, Body: body}); a.Status {
	case http.StatusOK, http.StatusCreated:
		return nil
	case http.StatusConflict, http.StatusNotFound, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", apply.ErrConflict, a.Body)
	default:
		return errors.New(string(a.Body))
	}
}
