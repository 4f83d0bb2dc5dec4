package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// GuardConfig has the parts of a Guard.
type GuardConfig struct {
	Fence    Fence
	Detector RestoreDetector
	// Timeout is the maximum duration of a fence, at most kube.LongestFence.
	Timeout time.Duration
	// FullPass requests a full pass soon. It must not block.
	FullPass func()
	Metrics  *Metrics
	Events   *Events
	Log      *slog.Logger
}

// Guard raises the fence after a restore of etcd, until no work remains, for at most Timeout. It runs in every replica,
// since the leader has often ended when the API server answers again. The first answer after an outage shows most
// restores; a pass, an agent or the fence of another replica shows the others.
type Guard struct {
	GuardConfig

	wakeup chan struct{}

	// Only the goroutine of Run uses these:
	leases           map[string][]string // of the pools before the last outage of the API server, and since
	last             kube.Answer         // the last answer with a revision
	lastAt           time.Time           // the time of last
	outageStart      time.Time           // zero while the API server answers
	outageEnd        time.Time           // of the last outage
	hasWarnedOfPools bool                // that no pool is known

	mu         sync.Mutex
	isLeader   bool
	evidence   string // of a restore that ReportRestore has received
	passLeases map[string][]string
	current    *guardFence // nil without a fence
	lastWhy    string      // why of the last fence
	lastEnd    time.Time   // when the last fence was lowered, by the API server's clock
}

// guardFence is a fence that this replica has raised.
type guardFence struct {
	why         string // evidence of the restore
	at          time.Time
	isComplete  bool   // it has held all Leases
	remaining   string // work that remained after the last full pass under the fence
	isRecovered bool   // no work remained
}

// Fence is a kube.Fence. It holds whereabouts' Leases, so that ADDs and DELs wait.
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
	// Ping makes the smallest request. Its error means that the API server is unreachable.
	Ping(ctx context.Context) (kube.Answer, error)
	// Leases returns whereabouts' Leases of the known pools, by namespace.
	Leases() map[string][]string
	// RestartFullPass restarts the current full pass.
	RestartFullPass()
	// RecordRestore records evidence that etcd was restored.
	RecordRestore(why string)
	// Now returns the time of the API server's clock.
	Now() time.Time
}

// NewGuard returns a Guard. Its methods may be called before Run.
func NewGuard(c GuardConfig) *Guard {
	return &Guard{GuardConfig: c, wakeup: make(chan struct{}, 1)}
}

// CheckFence checks --fence-timeout.
func CheckFence(timeout time.Duration) error {
	if timeout < 0 || timeout > kube.LongestFence {
		return fmt.Errorf("--fence-timeout %s: must be between 0 (no fence) and %s", timeout, kube.LongestFence)
	}
	return nil
}

// Lead records that this replica is the leader.
func (g *Guard) Lead() {
	g.Fence.Lead()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isLeader = true
}

// ReportRestore receives evidence of a restore of etcd from a pass or an agent, and its time by the API server's clock.
// A restore whose fence was lowered is not new. A new leader reports it with its time, or with the current time if that
// leader has detected it, too.
func (g *Guard) ReportRestore(why string, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.After(g.lastEnd) && (why != g.lastWhy || at.Sub(g.lastEnd) > sameRestoreWithin) {
		g.evidence = why
	}
	g.wake()
}

// wake makes the goroutine of Run continue at once.
func (g *Guard) wake() {
	select {
	case g.wakeup <- struct{}{}:
	default:
	}
}

// IsFenced reports whether a fence is raised. Full passes follow one another meanwhile.
func (g *Guard) IsFenced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current != nil
}

// PassEnded receives the result of a full pass. Only a pass under the current fence sets the remaining work.
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
	if since := out.Observation.FencedSince; g.current != nil && !since.IsZero() && since.Equal(g.Fence.State().Since) {
		g.current.remaining = remainingWork(out, since)
		g.current.isRecovered = g.current.remaining == ""
	}
	g.wake()
}

// remainingWork describes the work that remains after a full pass under a fence, "" for none. fence is since when the
// fence holds all Leases. A report must have been renewed after the last ADD or DEL before that must have ended.
func remainingWork(out *reconciler.Result, fence time.Time) string {
	switch {
	case out.Observation.Restored != "":
		return "the pass itself has detected the restore, another pass must follow"
	case out.WithoutAgents, out.Observation.Paused:
		return "" // no report will come, or no write is allowed
	case out.Restore == nil:
		return "the pass has not observed the restore"
	case !out.Restore.Complete():
		return "nodes that have not reported since the restore: " + strings.Join(out.Restore.Awaiting, ", ")
	}
	if nodes := out.NotRenewedSince(fence); len(nodes) > 0 {
		return "nodes that have not renewed their report under the fence: " + strings.Join(nodes, ", ")
	}
	if out.ToRepair > 0 {
		return fmt.Sprintf("%d allocations and reservations to write", out.ToRepair)
	}
	return ""
}
