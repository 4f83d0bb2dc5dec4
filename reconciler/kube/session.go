package kube

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// bounds are what a session may do, and until when.
type bounds struct {
	leases    []string    // as apply.Session.Leases
	forbidden []string    // as apply.Session.Forbidden
	until     time.Time   // as apply.Session.Until
	mayWrite  func() bool // reports whether the Leases were renewed so recently that they are still ours at a write
}

// session is an apply.Session. Its clients ask it when they send a request.
type session struct {
	bounds
	c        *Cluster
	held     context.Context // ends when the Leases must be cleared
	hasEnded atomic.Bool     // the work has returned
	objects  dynamic.Interface
	metadata metadata.Interface
}

// inSession runs work in a session, which ends with the work. Nothing else makes a session.
func (c *Cluster) inSession(held context.Context, b bounds, work apply.Work) error {
	s := &session{c: c, bounds: b, held: held}
	defer s.hasEnded.Store(true)
	var err error
	if s.objects, s.metadata, err = c.writers(s.maySend); err != nil {
		return err
	}
	return work(held, s)
}

// Leases implements apply.Session.
func (s *session) Leases() []string { return s.leases }

// Forbidden implements apply.Session.
func (s *session) Forbidden() []string { return s.forbidden }

// Until implements apply.Session.
func (s *session) Until() time.Time { return s.until }

// IsOpen implements apply.Session.
func (s *session) IsOpen() bool { return !s.hasEnded.Load() && s.held.Err() == nil && s.mayWrite() }

// maySend reports whether a request of the session may be sent now. A create may be late, since it completes a change.
func (s *session) maySend(r *http.Request) bool {
	if deletesPool(r) && !s.c.mayRetire(r) {
		return false
	}
	return s.IsOpen() || r.Method == http.MethodPost && !s.hasEnded.Load()
}

// PatchPool sends a JSON patch. A lost race is a 409, a failed test, or a missing pool. Only the metadata of the result
// is requested: a pool of 5,000 entries has 2 MB.
func (s *session) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error) {
	m, err := s.metadata.Resource(ippool.PoolResource).Namespace(p.Namespace).
		Patch(ctx, p.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	isConflict := apierrors.IsConflict(err) || testFailed(err) || apierrors.IsNotFound(err)
	if err = s.c.writeError("patch IPPool "+p.Ref(), err, isConflict); err != nil {
		return "", err
	}
	return m.ResourceVersion, nil
}

// DeleteReservation implements apply.Session.
func (s *session) DeleteReservation(ctx context.Context, r *ippool.Reservation) error {
	return s.c.deleteReservation(ctx, s.objects, r)
}

// CreatePool creates a pool. An existing pool remains as it is.
func (s *session) CreatePool(
	ctx context.Context, p *ippool.Pool, entries []ippool.NewEntry,
) (resourceVersion string, err error) {
	return s.c.create(ctx, s.objects, ippool.PoolResource, "IPPool", p.AsNew(entries))
}

// CreateReservation creates a reservation. An existing reservation remains as it is.
func (s *session) CreateReservation(ctx context.Context, r *ippool.Reservation) error {
	return s.c.createReservation(ctx, s.objects, r)
}
