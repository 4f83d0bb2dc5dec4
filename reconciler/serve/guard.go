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
	// Timeout is how long a fence may stand, at most 90 s: an ADD waits up to 2 min
	// for its turn.
	Timeout time.Duration
	// FullPass asks for a full pass soon. It must not block.
	FullPass func()
	Metrics  *Metrics
	Events   *Events
	Log      *slog.Logger
}

// Guard keeps the fence after a restore of etcd, until nothing is left to be done, for Timeout at most. It runs in every
// replica: the one that led has often ended by the time that the API server is back.
//
// Most restores show by the first answer after the API server was away: see Guard.restoreShownBy. Any other shows by a
// pass, by an agent, or by the fence of another replica.
type Guard struct {
	GuardConfig

	wakeup chan struct{}

	// Only the goroutine of Run uses these:
	leases         map[string][]string // of the pools that were known before the API server was last away
	last           kube.Answer         // that had a revision
	lastAt         time.Time           // when it came
	awaySince      time.Time           // zero while the API server answers
	answeredAt     time.Time           // when the API server first answered again
	raisedAt       time.Time           // zero while the fence is not raised
	fenceSince     time.Time           // the fence's FenceState.Since
	warnedNoLeases bool                // it was logged that the Leases are not known

	mu              sync.Mutex
	leading         bool
	reportedRestore string    // what showed others that etcd was restored
	endedRestore    string    // what showed the restore whose fence was the last to end
	endedAt         time.Time // when that ended, by the API server's clock
	passLeases      map[string][]string
	restoreReason   string    // what showed the restore, for the fence that is raised; "" while none is
	standingSince   time.Time // since when the fence stands, by our own clock
	remaining       string    // what the last full pass under the fence left to be done
	recovered       bool      // nothing remains
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

// RestoreDetector notices that etcd was restored.
type RestoreDetector interface {
	// Ping asks for as little as possible. The error means that the API server does not
	// answer, or cannot.
	Ping(ctx context.Context) (kube.Answer, error)
	// Leases are whereabouts' Leases for the pools that are known, by namespace.
	Leases() map[string][]string
	// RestartFullPass has a full pass that is under way begin again.
	RestartFullPass()
	// RecordRestore takes what shows that it was.
	RecordRestore(why string)
	// Now is the time by the API server's clock.
	Now() time.Time
}

// MaxFence is for how long a fence may stand at most.
const MaxFence = kube.LongestFence

const (
	// pingInterval is how often the API server is asked while all is well.
	pingInterval = time.Second
	// pingTimeout is how long it may take to answer then.
	pingTimeout = 3 * time.Second
	// awayPingInterval is how often it is asked while it is away: ADDs that wait for it ask
	// every half second.
	awayPingInterval = 50 * time.Millisecond
	awayPingTimeout  = time.Second
	// raisedPingInterval is how often it is asked while the fence is raised.
	raisedPingInterval = 200 * time.Millisecond
	// fastestWrites are in a second what no etcd does, and smallestBump what is less than any
	// that a restore is made with (etcdutl's --bump-revision: Kubernetes' documentation has 10⁹).
	fastestWrites = 20_000
	smallestBump  = 100_000
	// peerTimeout is how long it may take to read whether another replica keeps a fence.
	peerTimeout = time.Second
	// leaseExpiry is after how long Leases that nobody renewed have surely gone to others.
	leaseExpiry = 5 * time.Second
)

// NewGuard returns a Guard whose methods may be called before it runs.
func NewGuard(c GuardConfig) *Guard {
	return &Guard{GuardConfig: c, wakeup: make(chan struct{}, 1)}
}

// Lead takes note that this replica leads from now on.
func (g *Guard) Lead() {
	g.Fence.Lead()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = true
}

// RestoreReported takes in that a pass or an agent showed that etcd was restored, and when by
// the API server's clock. One whose fence has ended is not new: a replica that begins to lead
// reports it with its date, or, where it noticed it itself, with the date of now.
func (g *Guard) RestoreReported(why string, at time.Time) {
	g.mu.Lock()
	if at.After(g.endedAt) && (why != g.endedRestore || at.Sub(g.endedAt) > sameRestoreWithin) {
		g.reportedRestore = why
	}
	g.mu.Unlock()
	request(g.wakeup)
}

// Restoring reports whether the fence is raised for a restore: then full passes follow
// each other at once.
func (g *Guard) Restoring() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.restoreReason != ""
}

// PassEnded takes in a full pass that began at a time by our own clock.
func (g *Guard) PassEnded(began time.Time, out *reconciler.Result) {
	pools := slices.Clone(out.Observation.Pools)
	for i := range out.Findings {
		if r := out.Findings[i].Repair; r != nil && r.NewPool {
			pools = append(pools, r.Pool)
		}
	}
	leases := ippool.LeasesOf(pools)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passLeases = leases
	if g.restoreReason != "" && !g.standingSince.IsZero() && began.After(g.standingSince) {
		since := g.Fence.State().Since
		g.remaining = remainingWork(out, since)
		g.recovered = !since.IsZero() && g.remaining == ""
	}
	request(g.wakeup)
}

func mergeLeases(into, from map[string][]string) {
	for namespace, names := range from {
		for _, name := range names {
			if !slices.Contains(into[namespace], name) {
				into[namespace] = append(into[namespace], name)
			}
		}
	}
}

// CheckFence checks --fence-timeout.
func CheckFence(timeout time.Duration) error {
	if timeout < 0 || timeout > MaxFence {
		return fmt.Errorf("--fence-timeout %s: must be between 0, which is no fence, and %s: an ADD waits 2m for its turn", timeout, MaxFence)
	}
	return nil
}
