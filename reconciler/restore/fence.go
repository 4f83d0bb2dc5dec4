package restore

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LongestFence is the age from which on no replica renews a fence: an ADD waits for 2 min.
const LongestFence = 90 * time.Second

// Fence holds whereabouts' Leases, so that ADDs and DELs wait. All replicas share it.
type Fence interface {
	// Lead records that this replica leads from now on.
	Lead()
	// Raise starts to take the Leases, by namespace, or adds these, and returns at once.
	Raise(leases map[string][]string)
	// Lower ends the fence.
	Lower(ctx context.Context)
	// Leave ends the part of this replica. Another replica may keep the fence.
	Leave()
	State() FenceState
}

// FenceState is a fence at one moment.
type FenceState struct {
	// Since is from when on no ADD or DEL is in progress, by the API server's clock; zero while a Lease is not held.
	Since         time.Time
	Age           time.Duration // how long the first of the Leases has been held, by any replica; zero for none
	IsEndedByPeer bool          // another replica has ended the fence
	Missing       []string      // the Leases that are not held, including those that RBAC forbids, as namespace/name
}

// Detector detects restores of etcd.
type Detector interface {
	// Ping makes the smallest request. Its error means that the API server is unreachable.
	Ping(ctx context.Context) (Answer, error)
	// Leases returns whereabouts' Leases of the known pools, by namespace.
	Leases() map[string][]string
	// RestartFullPass restarts the current full pass.
	RestartFullPass()
	// RecordRestore records evidence that etcd was restored.
	RecordRestore(why string)
}

// Answer is the answer to a Ping.
type Answer struct {
	Revision       uint64       // that of the etcd that stores Leases, read by quorum; 0 where the request was refused
	Lease          LeaseVersion // that of the own Lease, which the leader renews every two seconds; zero for none
	HasReconnected bool         // the request opened a new connection, since the last one had ended
}

// LeaseVersion is a Lease at one moment.
type LeaseVersion struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}
