package reconciler

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Source reads a cluster: the live API, a folder of files, a simulator.
type Source interface {
	// Observe reads everything: reservations and pools first, pods last. An
	// error means that the look as a whole cannot be made; what can be done
	// without is said in the observation's Warnings.
	Observe(ctx context.Context) (*Observation, error)
	// Refresh reads anew, by quorum, all but pods and reservations.
	Refresh(ctx context.Context, o *Observation) (*Observation, error)
	// Fresh reads anew, by quorum, what is named, pods last, and returns the
	// observation with that in the place of what was there.
	Fresh(ctx context.Context, o *Observation, what Need) (*Observation, error)
}

// Need names what a fresh look reads.
type Need struct {
	Pools        []types.NamespacedName
	Reservations []types.NamespacedName
	Pods         []types.NamespacedName
}

// Writer changes a cluster. Every write carries its proof, so that it fails
// with ErrConflict where something changed since it was read.
type Writer interface {
	// Hold runs work while holding the Leases that whereabouts' ADD and DEL
	// take. The context given to work ends when the Leases must be given back;
	// work asks MayWrite before each write. It returns ErrLeaseBusy where the
	// Leases were not to be had in time, ErrLeaseForbidden where they never
	// will be, and else what work returned.
	Hold(ctx context.Context, namespace string, leases []string, work func(ctx context.Context) error) error
	// PatchPool applies a JSON patch with its tests to the pool.
	PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) error
	// DeleteReservation deletes this very reservation, by UID and
	// resourceVersion. One that is gone already is no error. It is called by
	// several goroutines at once.
	DeleteReservation(ctx context.Context, r *ippool.Reservation) error
	// CreateReservation creates a reservation; one of that name that is there
	// already is ErrConflict.
	CreateReservation(ctx context.Context, o *unstructured.Unstructured) error
}

var (
	// ErrConflict: what a write was based on has changed; read and judge again.
	ErrConflict = errors.New("changed in the meantime")
	// ErrForbidden: there is no right to make this write; trying again is useless.
	ErrForbidden = errors.New("forbidden")
	// ErrLeaseBusy: whereabouts' Lease was held by ADDs and DELs all the time.
	ErrLeaseBusy = errors.New("whereabouts' Lease was not to be had in time")
	// ErrLeaseForbidden: there is no right to whereabouts' Lease.
	ErrLeaseForbidden = errors.New("no right to whereabouts' Lease")
	// ErrHoldSpent: too little is left of the time for which the Lease is held.
	ErrHoldSpent = errors.New("the time for which the Lease is held ran out")
)
