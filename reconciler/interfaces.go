package reconciler

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Source reads a cluster: the live API, a folder of files, a simulator.
type Source interface {
	// List reads everything: reservations and pools first, pods last. What a pass can do without is in the Warnings.
	List(ctx context.Context) (*judge.Observation, error)
	// Relist reads again, by quorum, all except pods and reservations.
	Relist(ctx context.Context, o *judge.Observation) (*judge.Observation, error)
	// GetLive reads again, by quorum, the named objects that may have changed since the observation, pods last. Its cost
	// must not grow with the cluster: it is called while whereabouts' Lease is held.
	GetLive(ctx context.Context, o *judge.Observation, what LiveKeys) (*judge.Live, error)
}

// LiveKeys names what a live read reads.
type LiveKeys struct {
	Pools                          []types.NamespacedName // read in full where their resourceVersion has changed
	Reservations, Pods, IPAMClaims []types.NamespacedName
}

// Writer changes a cluster. Every write carries its proof: it fails with ErrConflict where its object has changed since
// it was read. All methods except Hold are called by several goroutines at once.
type Writer interface {
	// Hold runs work while it holds the first of the Leases, and of the others those that were free: all that whereabouts'
	// ADD and DEL may take. The context of work ends when the Leases must be cleared. The error is ErrLeaseBusy where the
	// first one was busy until the timeout, ErrLeaseFailed, ErrLeaseForbidden where RBAC forbids one, or that of work.
	Hold(ctx context.Context, namespace string, leases []string, work Work) error
	// PatchPool applies a JSON patch with its tests to the pool, and returns its new resourceVersion.
	PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error)
	// DeleteReservation deletes this very reservation, by UID and resourceVersion. A missing one is no error.
	DeleteReservation(ctx context.Context, r *ippool.Reservation) error
	// CreatePool creates a pool, and returns its resourceVersion. An existing name is ErrConflict.
	CreatePool(ctx context.Context, o *unstructured.Unstructured) (resourceVersion string, err error)
	// CreateReservation creates a reservation. An existing name is ErrConflict.
	CreateReservation(ctx context.Context, o *unstructured.Unstructured) error
}

// Work is what runs under a hold.
type Work = func(context.Context, *Hold) error

// Fence keeps ADDs and DELs waiting after a restore of etcd.
type Fence interface {
	// Since returns since when no ADD or DEL is in progress, by the API server's clock; zero while one may be.
	Since() time.Time
}

var (
	ErrConflict  = errors.New("changed in the meantime") // the object of a write: read and judge again
	ErrForbidden = errors.New("forbidden")               // by RBAC, a policy or a schema; trying again at once is useless
	ErrLeaseBusy = errors.New("whereabouts' Lease was busy until the timeout")
	// ErrLeaseFailed: the API server answered with errors until the timeout. Perhaps nobody holds the Lease.
	ErrLeaseFailed    = errors.New("cannot take whereabouts' Lease")
	ErrLeaseForbidden = errors.New("cannot take whereabouts' Lease: forbidden")
	ErrHoldSpent      = errors.New("the time of the hold ran out")
)

// Hold is a hold of whereabouts' Leases. The zero value has no bounds, for work without Leases.
type Hold struct {
	Leases []string // those that are held; nil where no Lease is needed
	// Until is when new work must not begin any more, so that ADDs do not wait for long; zero for no such time.
	Until    time.Time
	MayWrite func() bool // reports whether a write may begin now; nil for always

	isSlow atomic.Bool // a write took longer than maxWriteLatency
}

// maxWriteLatency is how long a write may take. A write begins within 700 ms of a renewal, and others may take a Lease
// 1.5 s after it. A server that needs longer than the difference is too slow, whatever it answers.
const maxWriteLatency = 800 * time.Millisecond

func (h *Hold) covers(leases []string) bool {
	return h.Leases == nil || !slices.ContainsFunc(leases, func(l string) bool { return !slices.Contains(h.Leases, l) })
}

// mayBegin reports whether new work may begin, which is not needed to complete a change.
func (h *Hold) mayBegin(ctx context.Context, c clock.PassiveClock) bool {
	return h.mayWrite(ctx) && (h.Until.IsZero() || c.Now().Before(h.Until))
}

func (h *Hold) mayWrite(ctx context.Context) bool {
	return ctx.Err() == nil && !h.isSlow.Load() && (h.MayWrite == nil || h.MayWrite())
}

// noteLatency records how long a write took. A slow write ends the hold.
func (h *Hold) noteLatency(took time.Duration) {
	if h.MayWrite != nil && took > maxWriteLatency {
		h.isSlow.Store(true)
	}
}

// rollbackKey marks the context of writes that undo a delete.
type rollbackKey struct{}

func withRollback(ctx context.Context) context.Context {
	return context.WithValue(ctx, rollbackKey{}, true)
}

// IsRollback reports whether a write undoes a delete: no other write is sent outside a hold.
func IsRollback(ctx context.Context) bool { return ctx.Value(rollbackKey{}) != nil }
