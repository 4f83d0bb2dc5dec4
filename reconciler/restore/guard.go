package restore

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// GuardConfig has the parts of a Guard.
type GuardConfig struct {
	Fence    Fence
	Detector Detector
	// Timeout is the maximum duration of a fence, at most LongestFence.
	Timeout time.Duration
	// FullPass requests a full pass soon. It must not block.
	FullPass func()
	// OnEvent receives each Event, from the goroutine of Run. It must not block.
	OnEvent func(Event)
}

// Guard raises the fence after a restore of etcd, until no work remains, for at most Timeout. It runs in every replica,
// since the leader has often ended when the API server answers again. The first answer after an outage shows most
// restores; a pass or an agent shows the others. Each restore has one fence. A fence that was raised before its restore
// had an ID is that of the next ID that is reported.
type Guard struct {
	GuardConfig

	wakeup chan struct{}

	// Only the goroutine of Run uses these:
	leases           map[string][]string // of the pools before the last outage of the API server, and since
	last             Answer              // the last answer with a revision
	lastAt           time.Time           // the time of last
	outageStart      time.Time           // zero while the API server answers
	outageEnd        time.Time           // of the last outage
	hasWarnedOfPools bool                // that no pool is known

	mu              sync.Mutex
	isLeader        bool
	evidence        string    // of a restore that needs a fence; "" for none
	isEvidenceNamed bool      // the ID of that restore is fencedID
	fencedID        string    // the last ID that was reported
	unnamed         string    // evidence of the last fence, while the ID of its restore is not reported; else ""
	unnamedSince    time.Time // when that fence was raised
	passLeases      map[string][]string
	current         *guardFence // nil without a fence
}

// guardFence is a fence that this replica has raised.
type guardFence struct {
	why         string // evidence of the restore
	at          time.Time
	isComplete  bool   // it has held all Leases
	remaining   string // work that remained after the last full pass under the fence
	isRecovered bool   // no work remained
	isOthers    bool   // it was joined, and that pass knew of no restore: the fence is not this replica's to end
}

// joined is the evidence of a fence that another process has raised, maybe recover without a restore.
const joined = "another replica has raised the fence"

// NewGuard returns a Guard. Its methods may be called before Run.
func NewGuard(c GuardConfig) *Guard {
	return &Guard{GuardConfig: c, wakeup: make(chan struct{}, 1)}
}

// Lead records that this replica is the leader.
func (g *Guard) Lead() {
	g.Fence.Lead()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isLeader = true
}

// ReportEvidence receives evidence of a restore of etcd that has no ID yet. A fence was raised once for the same.
func (g *Guard) ReportEvidence(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why != g.unnamed {
		g.evidence, g.isEvidenceNamed = why, false
	}
	g.wake()
}

// namedWithin is how old a fence may be when the ID of its restore is reported; a later ID is of another one.
const namedWithin = 20 * time.Minute

// ReportRestore receives the ID of a restore of etcd, and what showed it, from a pass.
func (g *Guard) ReportRestore(id, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id == g.fencedID {
		return
	}
	if g.fencedID = id; g.unnamed == "" || time.Since(g.unnamedSince) > namedWithin {
		g.evidence, g.isEvidenceNamed = cmp.Or(why, "the stored state does not say why"), true
	}
	g.unnamed = ""
	g.wake()
}

// Join records that another replica has raised the fence, and that this one leads and must work under it. A fence that
// is raised here already serves. Where this one knows of no restore it leaves the fence when it has no work.
func (g *Guard) Join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil && g.evidence == "" {
		g.evidence, g.isEvidenceNamed = joined, true
	}
	g.wake()
}

// expectName notes that a fence was raised whose restore has no ID yet.
func (g *Guard) expectName(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unnamed, g.unnamedSince = why, time.Now()
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

// Pass is what a full pass tells a Guard.
type Pass struct {
	*judge.Judgement
	Restore  *Status             // nil where the pass has observed no restore
	Leases   map[string][]string // of all pools, by namespace, and of those that a repair creates
	ToRepair int                 // how many findings are yet to be repaired
	Unknown  string              // why there may be more of them; "" if there are not
}

// PassEnded receives what a full pass has observed. Only a pass under the current fence sets the remaining work.
func (g *Guard) PassEnded(p Pass) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passLeases = p.Leases
	if since := p.Observation.FencedSince; g.current != nil && !since.IsZero() && since.Equal(g.Fence.State().Since) {
		g.current.isOthers = g.current.why == joined && p.Restore == nil
		g.current.remaining = remainingWork(p, since, g.current.isOthers)
		g.current.isRecovered = g.current.remaining == ""
	}
	g.wake()
}

// remainingWork describes the work that remains after a full pass under a fence, "" for none. fence is since when the
// fence holds all Leases. A report must have been renewed after the last ADD or DEL before that must have ended.
// Another's fence needs no restore.
func remainingWork(p Pass, fence time.Time, isOthers bool) string {
	switch {
	case p.Observation.Restored != "":
		return "the pass itself has detected the restore, another pass must follow"
	case p.WithoutAgents, p.Observation.Paused && p.Observation.PauseUnknown == "":
		return "" // no report will come, or no write is allowed
	case p.Restore == nil && !isOthers:
		return "the pass has not observed the restore"
	case !p.Restore.Complete():
		return "nodes that have not reported since the restore: " + strings.Join(p.Restore.Awaiting, ", ")
	}
	if nodes := p.NotRenewedSince(fence); len(nodes) > 0 {
		return "nodes that have not renewed their report under the fence: " + strings.Join(nodes, ", ")
	}
	if p.Unknown != "" {
		return "what remains is unknown: " + p.Unknown
	}
	if p.ToRepair > 0 {
		return fmt.Sprintf("%d allocations and reservations to write", p.ToRepair)
	}
	return ""
}
