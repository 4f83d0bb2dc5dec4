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
	// List reads everything: reservations and pools first, pods last. An error means that the cluster as a whole cannot
	// be observed; what can be done without is said in the observation's Warnings.
	List(ctx context.Context) (*judge.Observation, error)
	// Relist reads again, by quorum, all but pods and reservations.
	Relist(ctx context.Context, o *judge.Observation) (*judge.Observation, error)
	// GetLive reads again, by quorum, what is named and what may have changed of it since the observation, pods last.
	// Its cost grows with what is named, not with the cluster: it is called while whereabouts' Lease is held.
	GetLive(ctx context.Context, o *judge.Observation, what LiveKeys) (*judge.Live, error)
}

// LiveKeys names what a live read is about.
type LiveKeys struct {
	// Pools are read in full where they have another resourceVersion than in the observation.
	Pools        []types.NamespacedName
	Reservations []types.NamespacedName
	Pods         []types.NamespacedName
}

// Writer changes a cluster. Every write carries its proof, so that it fails
// with ErrConflict where something changed since it was read.
type Writer interface {
	// Hold runs work while holding the first of the Leases, and of the others those that were free: all that
	// whereabouts' ADD and DEL may take. The context given to work ends when the Leases must be given back. It returns
	// ErrLeaseBusy where the first was not to be had in time, ErrLeaseFailed, ErrLeaseForbidden where one never will
	// be, and else what work returned.
	Hold(ctx context.Context, namespace string, leases []string, work func(context.Context, *Hold) error) error
	// PatchPool applies a JSON patch with its tests to the pool, and returns the resourceVersion that it has then. It
	// is called by several goroutines at once, for different pools.
	PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error)
	// DeleteReservation deletes this very reservation, by UID and resourceVersion. One that is gone already is no
	// error. It is called by several goroutines at once.
	DeleteReservation(ctx context.Context, r *ippool.Reservation) error
	// CreatePool creates a pool, and returns its resourceVersion; one of that name that is
	// there already is ErrConflict. It is called by several goroutines at once.
	CreatePool(ctx context.Context, o *unstructured.Unstructured) (resourceVersion string, err error)
	// CreateReservation creates a reservation; one of that name that is there already is ErrConflict.
	CreateReservation(ctx context.Context, o *unstructured.Unstructured) error
}

// Fence tells of the time for which nothing is handed out and nothing given back.
type Fence interface {
	// Since is since when it stands, by the API server's clock as Report.ConfirmedAt is, and not a moment too early: no ADD
	// or DEL is under way from then on. standing is false while one may be.
	Since() (since time.Time, standing bool)
}

var (
	// ErrConflict: what a write was based on has changed; read and judge again.
	ErrConflict = errors.New("changed in the meantime")
	// ErrForbidden: rights, an admission policy or a schema deny this write; trying again at once is useless.
	ErrForbidden = errors.New("forbidden")
	// ErrLeaseBusy: whereabouts' Lease was held by ADDs and DELs all the time.
	ErrLeaseBusy = errors.New("whereabouts' Lease was not to be had in time")
	// ErrLeaseFailed: the API server answered with an error until the time for whereabouts'
	// Lease was over, as it does where etcd is full. Nobody need hold it.
	ErrLeaseFailed = errors.New("whereabouts' Lease could not be taken")
	// ErrLeaseForbidden: there is no right to whereabouts' Lease.
	ErrLeaseForbidden = errors.New("no right to whereabouts' Lease")
	// ErrHoldSpent: too little is left of the time for which the Lease is held.
	ErrHoldSpent = errors.New("the time for which the Lease is held ran out")
)

// Hold is a hold of whereabouts' Leases as the work under it sees it. The zero
// value is one without any bound: nobody waits for it.
type Hold struct {
	// Leases are those that are held; nil where no Lease is needed.
	Leases []string
	// Until is when the work should come to its end, so that ADDs are not kept waiting: nothing is begun then but what
	// finishes what was begun. Zero for no such time.
	Until time.Time
	// MayWrite reports whether a write may begin now; nil for always.
	MayWrite func() bool

	late atomic.Bool // the answer to a write was
}

// lateAfter is how long a write may take before its answer counts as late. A write begins within 700 ms of a renewal,
// and others may take a Lease 1.5 s after it: a server that needs longer than what lies between is too slow to rely on,
// whatever it answers.
const lateAfter = 800 * time.Millisecond

// covers reports whether all these Leases are held.
func (h *Hold) covers(leases []string) bool {
	return h.Leases == nil || !slices.ContainsFunc(leases, func(l string) bool { return !slices.Contains(h.Leases, l) })
}

// mayBegin reports whether new work may begin: something that is not needed to finish what was begun.
func (h *Hold) mayBegin(ctx context.Context, c clock.PassiveClock) bool {
	return h.mayWrite(ctx) && (h.Until.IsZero() || c.Now().Before(h.Until))
}

func (h *Hold) mayWrite(ctx context.Context) bool {
	return ctx.Err() == nil && !h.late.Load() && (h.MayWrite == nil || h.MayWrite())
}

// noteLatency takes note of how long a write took: one that was late ends the hold.
func (h *Hold) noteLatency(took time.Duration) {
	if h.MayWrite != nil && took > lateAfter {
		h.late.Store(true)
	}
}

// putBackKey marks the context of writes that undo what was deleted.
type putBackKey struct{}

func puttingBack(ctx context.Context) context.Context {
	return context.WithValue(ctx, putBackKey{}, true)
}

// IsRollback reports whether a write undoes what was deleted: no other write is sent outside of a hold.
func IsRollback(ctx context.Context) bool { return ctx.Value(putBackKey{}) != nil }
