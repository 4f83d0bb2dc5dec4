// Package apply writes changes of pools and reservations. What comes in are releases, repairs and retirements that were
// planned, and rules that judge them again. Under whereabouts' Leases each change has its second check, and is written.
// What goes out, to the rules, is how each one ends. Only a Session can write, and only a hold of the Leases makes one.
//
// Read change.go, backlog.go, executor.go and write.go, in that order.
package apply

import (
	"context"
	"errors"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// MaxHold is how long a hold lasts at most, whatever is in progress.
const MaxHold = 5 * time.Second

// Session is the right to write pools and reservations while whereabouts' Leases are held and renewed. Only Leases.Hold
// makes one, which ends when the work of that hold returns. Every write carries its proof: it fails with ErrConflict if
// its object has changed since it was read. A patch or a delete is not sent while IsOpen is false, whatever delayed it.
// A create may be late, because it completes a change. All methods are called by several goroutines at once.
type Session interface {
	// Leases returns the names of those that are held; nil if none is needed.
	Leases() []string
	// Forbidden returns those of the pools' Leases that RBAC forbids, in no order.
	Forbidden() []string
	// Until returns when new changes must not begin any more, so that ADDs do not wait for long; zero for no such time.
	Until() time.Time
	// IsOpen reports whether a write may be sent now: the Leases are held, and still ours when the write arrives.
	IsOpen() bool
	// PatchPool applies a JSON patch with its tests to the pool, and returns its new resourceVersion.
	PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error)
	// DeleteReservation deletes this very reservation, by UID and resourceVersion. A missing one is no error.
	DeleteReservation(ctx context.Context, r *ippool.Reservation) error
	// CreatePool creates the pool with only these allocations, and returns its resourceVersion. An existing name is
	// ErrConflict.
	CreatePool(ctx context.Context, p *ippool.Pool, entries []ippool.NewEntry) (resourceVersion string, err error)
	// CreateReservation creates the reservation as a new object. An existing name is ErrConflict.
	CreateReservation(ctx context.Context, r *ippool.Reservation) error
	// DeletePool deletes this very version of an empty pool, by UID and resourceVersion. A missing one is no error. It is
	// sent only by a process that a person asked to retire this pool.
	DeletePool(ctx context.Context, r *ippool.Removal) error
}

// Leases are whereabouts' Leases, and the only way to a Session.
type Leases interface {
	// Hold runs work while it holds the first of the Leases, and of the others those that were free: all that whereabouts'
	// ADD and DEL may take. The context of work ends when the Leases must be cleared. Of the first one the error is
	// ErrLeaseBusy where it was busy until the timeout, ErrLeaseFailed, or ErrLeaseForbidden where RBAC forbids it. Any
	// other error is that of work.
	Hold(ctx context.Context, namespace string, leases []string, work Work) error
	// Recreate creates a reservation again that was deleted, or perhaps. It is the only write without a Session. One that
	// exists may be the one whose delete was sent and not answered. That delete may still arrive, and must not match: so
	// the reservation is replaced by a new object. Somebody else's is left, and is no error. Each create is bounded by the
	// timeout.
	Recreate(ctx context.Context, r *ippool.Reservation, timeout time.Duration) error
}

// Work is what runs under a hold. It must not keep the Session.
type Work = func(context.Context, Session) error

var (
	ErrConflict  = errors.New("changed in the meantime") // the object of a write: read and judge again
	ErrForbidden = errors.New("forbidden")               // by RBAC, a policy or a schema; trying again at once is useless
	ErrLeaseBusy = errors.New("whereabouts' Lease was busy until the timeout")
	// ErrLeaseFailed: the API server answered with errors until the timeout. Perhaps nobody holds the Lease.
	ErrLeaseFailed    = errors.New("cannot take whereabouts' Lease")
	ErrLeaseForbidden = errors.New("cannot take whereabouts' Lease: forbidden")
	ErrHoldSpent      = errors.New("the time of the hold ran out")
)
