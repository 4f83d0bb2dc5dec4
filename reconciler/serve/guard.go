package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// GuardConfig is what a Guard works with.
type GuardConfig struct {
	Fence    Fence
	Detector RestoreDetector
	// Timeout is how long a fence may stand, at most MaxFence.
	Timeout time.Duration
	// FullPass requests a full pass soon. It must not block.
	FullPass func()
	Metrics  *Metrics
	Events   *Events
	Log      *slog.Logger
}

// Guard keeps the fence after a restore of etcd, until nothing remains to be done, for Timeout at most. It runs in every
// replica: the one that led has often ended by the time that the API server is back.
//
// Most restores show by the first answer after the API server was away: see restoreShown. Any other shows by a pass, by
// an agent, or by the fence of another replica.
type Guard struct {
	GuardConfig

	wakeup chan struct{}

	// Only the goroutine of Run uses these:
	leases         map[string][]string // of the pools that were known before the API server was last away
	last           kube.Answer         // that had a revision
	lastAt         time.Time           // when it came
	awaySince      time.Time           // zero while the API server answers
	answeredAt     time.Time           // when the API server first answered again
	warnedNoLeases bool                // it was logged that the Leases are not known

	mu         sync.Mutex
	leading    bool
	reported   string // what showed others that etcd was restored
	passLeases map[string][]string
	raised     *raisedFence // nil while no fence is raised
	endedWhy   string       // what showed the restore whose fence was the last to end
	endedAt    time.Time    // when that ended, by the API server's clock
}

// raisedFence is a fence from when this replica raises it until it ends for this replica.
type raisedFence struct {
	why       string // what showed the restore
	at        time.Time
	hasStood  bool
	remaining string // what the last full pass under it left to be done
	recovered bool   // nothing remains
}

// Fence is a kube.Fence: it holds whereabouts' Leases, so that no ADD or DEL goes on.
type Fence interface {
	Lead()
	Raise(leases map[string][]string, why string)
	Lower(ctx context.Context)
	Leave()
	State() kube.FenceState
	PeerFence(ctx context.Context, leases map[string][]string) (why string, err error)
}

// RestoreDetector detects restores of etcd.
type RestoreDetector interface {
	// Ping asks for as little as possible. The error means that the API server does not answer, or cannot.
	Ping(ctx context.Context) (kube.Answer, error)
	// Leases are whereabouts' Leases for the pools that are known, by namespace.
	Leases() map[string][]string
	// RestartFullPass has a full pass that is in progress begin again.
	RestartFullPass()
	// RecordRestore takes what shows that etcd was restored.
	RecordRestore(why string)
	// Now is the time by the API server's clock.
	Now() time.Time
}

// MaxFence is for how long a fence may stand at most.
const MaxFence = kube.LongestFence

// NewGuard returns a Guard whose methods may be called before it runs.
func NewGuard(c GuardConfig) *Guard {
	return &Guard{GuardConfig: c, wakeup: make(chan struct{}, 1)}
}

// CheckFence checks --fence-timeout.
func CheckFence(timeout time.Duration) error {
	if timeout < 0 || timeout > MaxFence {
		return fmt.Errorf("--fence-timeout %s: must be between 0, which is no fence, and %s: an ADD waits 2m for its turn", timeout, MaxFence)
	}
	return nil
}

// Lead takes note that this replica leads from now on.
func (g *Guard) Lead() {
	g.Fence.Lead()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = true
}

// RestoreReported takes what showed a pass or an agent that etcd was restored, and when by the API server's clock. A
// restore whose fence has ended is not new: a replica that begins to lead reports it with its date, or, where it detected
// it itself, with the date of now.
func (g *Guard) RestoreReported(why string, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.After(g.endedAt) && (why != g.endedWhy || at.Sub(g.endedAt) > sameRestoreWithin) {
		g.reported = why
	}
	request(g.wakeup)
}

// Restoring reports whether the fence is raised: then full passes follow each other at once.
func (g *Guard) Restoring() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.raised != nil
}

// PassEnded takes the result of a full pass. Only one that was made under the fence as it stands now tells what remains.
func (g *Guard) PassEnded(out *reconciler.Result) {
	pools := slices.Clone(out.Observation.Pools)
	for i := range out.Findings {
		if r := out.Findings[i].Repair; r != nil && r.NewPool {
			pools = append(pools, r.Pool)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passLeases = ippool.LeasesOf(pools)
	if since := out.Observation.FencedSince; g.raised != nil && !since.IsZero() && since.Equal(g.Fence.State().Since) {
		g.raised.remaining = remainingWork(out, since)
		g.raised.recovered = g.raised.remaining == ""
	}
	request(g.wakeup)
}
