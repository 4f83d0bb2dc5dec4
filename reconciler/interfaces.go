package reconciler

import (
	"context"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Source reads a cluster: the live API, a folder of files, a simulator.
type Source interface {
	// List reads everything: reservations and pools first, pods last. What a pass can do without is in the Warnings. An
	// error of each method comes with what was read until then, or nil. That may show a restore of etcd, and proves
	// nothing else.
	List(ctx context.Context) (*facts.Observation, error)
	// Relist reads again, by quorum, all except pods and reservations.
	Relist(ctx context.Context, o *facts.Observation) (*facts.Observation, error)
	// GetLive reads again, by quorum, the named objects that may have changed since the observation, pods last. Its cost
	// must not grow with the cluster: it is called while whereabouts' Lease is held.
	GetLive(ctx context.Context, o *facts.Observation, what facts.LiveKeys) (*facts.Live, error)
}

// Fence keeps ADDs and DELs waiting after a restore of etcd.
type Fence interface {
	// Since returns since when no ADD or DEL is in progress, by the API server's clock; zero while one may be.
	Since() time.Time
}

// StateStore keeps a text where other processes find it: after a restart, in a Job, in a run by hand.
type StateStore interface {
	// Update replaces the text, "" at first, by the result of change. After a concurrent write change is called again.
	// An unchanged text is not written. Where RBAC, a policy or a schema forbids it the error is apply.ErrForbidden.
	Update(ctx context.Context, change func(kept string) (string, error)) error
}
