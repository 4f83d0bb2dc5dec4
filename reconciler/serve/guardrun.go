package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	// pingInterval is how often the API server is asked while all is well.
	pingInterval = time.Second
	// pingTimeout is how long it may take to answer then.
	pingTimeout = 3 * time.Second
	// awayPingInterval is how often it is asked while it is away: ADDs that wait for it ask every half second.
	awayPingInterval = 50 * time.Millisecond
	awayPingTimeout  = time.Second
	// raisedPingInterval is how often it is asked while the fence is raised.
	raisedPingInterval = 200 * time.Millisecond
	// fastestWrites are in a second what no etcd does, and smallestBump what is less than any that a restore is made
	// with (etcdutl's --bump-revision: Kubernetes' documentation has 10⁹).
	fastestWrites = 20_000
	smallestBump  = 100_000
	// peerTimeout is how long it may take to read whether another replica keeps a fence.
	peerTimeout = time.Second
	// leaseExpiry is after how long Leases that nobody renewed have surely gone to others.
	leaseExpiry = 5 * time.Second
)

// Outcomes of a fence.
const (
	outcomeSettled     = "Settled"
	outcomeTimedOut    = "TimedOut"
	outcomeEndedByPeer = "" // by the other replica, which counts it
)

// Run guards until the context ends. Then a fence is left to the other replica.
func (g *Guard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.step(ctx)
		pause := pingInterval
		switch {
		case !g.awaySince.IsZero():
			pause = awayPingInterval
		case g.raised != nil: // only this goroutine sets it
			pause = raisedPingInterval
		}
		select {
		case <-ctx.Done():
		case <-g.wakeup:
		case <-time.After(pause):
		}
	}
	g.Fence.Leave()
}

func (g *Guard) step(ctx context.Context) {
	limit := pingTimeout
	if !g.awaySince.IsZero() {
		limit = awayPingTimeout
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	answer, err := g.Detector.Ping(asked)
	cancel()
	switch {
	case err == nil:
		g.noteAnswer(answer)
		g.handleReports(ctx)
	case ctx.Err() == nil && g.awaySince.IsZero():
		g.Log.Debug("The API server is away", "error", err)
		g.awaySince = time.Now()
	}
	if g.raised != nil {
		state := g.Fence.State()
		g.noteStanding(state)
		g.lowerIfDue(ctx, state)
	}
}

// noteAnswer raises the fence where an answer shows that etcd was restored. After a time without the API server it
// requests a full pass, which shows any other restore.
func (g *Guard) noteAnswer(answer kube.Answer) {
	awaySince := g.awaySince
	wasAway := !awaySince.IsZero() || answer.HasReconnected && g.last.Revision != 0
	g.awaySince = time.Time{}
	g.updateLeases(wasAway)
	if wasAway {
		g.answeredAt = time.Now()
		g.Detector.RestartFullPass()
		g.FullPass()
		if was := g.raised; was != nil && !awaySince.IsZero() && time.Since(awaySince) > leaseExpiry { // nothing was kept from anybody meanwhile
			g.Fence.Leave()
			g.setRaised(nil)
			g.raise(was.why)
		}
	}
	if answer.Revision == 0 {
		return
	}
	if why := restoreShown(g.last, answer, time.Since(g.lastAt)); why != "" {
		g.Detector.RecordRestore(why)
		g.raise(why)
	}
	g.last, g.lastAt = answer, time.Now()
}

// restoreShown is how an answer shows that etcd was restored since the one before it, "" if it does not.
func restoreShown(was, now kube.Answer, took time.Duration) string {
	switch {
	case was.Revision == 0:
		return ""
	case now.Revision < was.Revision:
		return fmt.Sprintf("etcd is at resourceVersion %d after %d", now.Revision, was.Revision)
	case now.Lease.UID == was.Lease.UID && kube.Older(now.Lease.ResourceVersion, was.Lease.ResourceVersion):
		return fmt.Sprintf("the Lease %s is at resourceVersion %s after %s", kube.OwnLease, now.Lease.ResourceVersion, was.Lease.ResourceVersion)
	case float64(now.Revision-was.Revision) > max(smallestBump, fastestWrites*took.Seconds()):
		return fmt.Sprintf("etcd is at resourceVersion %d %s after it was at %d", now.Revision, took.Round(time.Second), was.Revision)
	}
	return ""
}

// updateLeases notes which Leases there are. During and after an outage, and under the fence, those that were known before
// stay: a restore may have lost a pool that a pod has an address of.
func (g *Guard) updateLeases(wasAway bool) {
	leases := g.Detector.Leases()
	if g.leases != nil && (wasAway || time.Since(g.answeredAt) < g.Timeout || g.raised != nil || len(leases) == 0) {
		g.addLeases(leases)
		return
	}
	g.leases = leases
}

func (g *Guard) addLeases(leases map[string][]string) {
	if g.leases == nil {
		g.leases = map[string][]string{}
	}
	for namespace, names := range leases {
		names = append(slices.Clone(g.leases[namespace]), names...)
		slices.Sort(names)
		g.leases[namespace] = slices.Compact(names)
	}
}

// handleReports takes what passes have reported, and what the fence of another replica says.
func (g *Guard) handleReports(ctx context.Context) {
	g.mu.Lock()
	reported, leases, leading := g.reported, g.passLeases, g.leading
	g.reported, g.passLeases = "", nil
	g.mu.Unlock()
	g.addLeases(leases)
	switch {
	case reported != "":
		g.raise(reported)
	case leases == nil:
	case g.raised != nil: // there may be more pools
		g.Fence.Raise(g.leases, g.raised.why)
	case leading: // a replica that has just begun to lead may know of no restore
		asked, cancel := context.WithTimeout(ctx, peerTimeout)
		defer cancel()
		switch peer, err := g.Fence.PeerFence(asked, leases); {
		case err != nil:
			g.Log.Debug("Cannot read whether another replica keeps the fence", "error", err)
		case peer != "":
			why := "another replica says: " + peer
			g.Detector.RecordRestore(why)
			g.raise(why)
		}
	}
}

// raise raises the fence, where it is known over which Leases. A fence that is raised then stands for this restore, too.
func (g *Guard) raise(why string) {
	if len(g.leases) == 0 {
		if !g.warnedNoLeases {
			g.Log.Warn("no fence can be raised: it is not known yet where pools are", "why", why)
			g.warnedNoLeases = true
		}
		return
	}
	next := &raisedFence{why: why, at: time.Now()}
	if was := g.raised; was != nil {
		next.at, next.hasStood = was.at, was.hasStood
	} else {
		text := "etcd was restored: whereabouts' Leases are kept, so that nothing is handed out before the pools say what runs"
		g.Log.Error(text, "why", why, "atMost", g.Timeout)
		g.Events.aboutSelf("FenceRaised", text+", at most for "+g.Timeout.String()+": "+why)
	}
	g.setRaised(next)
	g.Fence.Raise(g.leases, why)
	g.FullPass()
}

func (g *Guard) setRaised(next *raisedFence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raised = next
}

// noteStanding notes when the fence first stands.
func (g *Guard) noteStanding(state kube.FenceState) {
	if g.raised.hasStood || state.Since.IsZero() {
		return
	}
	g.raised.hasStood = true
	g.Metrics.fence.Set(1)
	attrs := []any{"took", time.Since(g.raised.at).Round(time.Millisecond)}
	if since := time.Since(g.answeredAt); since < g.Timeout {
		attrs = append(attrs, "sinceTheAPIServerAnswers", since.Round(time.Millisecond))
	}
	g.Log.Info("the fence stands: ADDs and DELs wait", attrs...)
	g.FullPass()
}

// lowerIfDue lowers the fence when its time has come.
func (g *Guard) lowerIfDue(ctx context.Context, state kube.FenceState) {
	g.mu.Lock()
	was, leading := *g.raised, g.leading
	g.mu.Unlock()
	var outcome string
	switch {
	case state.IsEndedByPeer && !leading:
		outcome = outcomeEndedByPeer
	case !g.awaySince.IsZero() && !was.recovered: // nobody waits for it
		return
	case max(state.Age, time.Since(was.at)) >= g.Timeout: // also where none of the Leases could be taken
		outcome = outcomeTimedOut
	case was.recovered:
		outcome = outcomeSettled
	default:
		return
	}
	g.Fence.Lower(ctx)
	g.mu.Lock()
	g.raised, g.endedWhy, g.endedAt = nil, was.why, g.Detector.Now()
	g.mu.Unlock()
	g.Metrics.fenceLowered(outcome, state.Age)
	stood := state.Age.Round(time.Millisecond)
	switch {
	case outcome == outcomeSettled:
		g.Log.Info("the fence is lowered: after the restore of etcd all is settled", "stood", stood)
	case outcome == outcomeEndedByPeer:
		g.Log.Info("the fence was lowered by the other replica", "stood", stood)
	default:
		remaining := cmp.Or(was.remaining, "no full pass was made under it")
		if len(state.Missing) > 0 {
			remaining += "; not held were " + strings.Join(state.Missing, ", ")
		}
		g.Log.Error("the fence is lowered, since ADDs and DELs must not wait for longer: addresses may be handed out that are in use",
			"stood", stood, "leads", leading, "left", remaining)
		if leading { // only the leader makes passes
			g.Events.aboutSelf("FenceTimedOut", fmt.Sprintf("after %s ADDs and DELs go on, although not all is settled: %s", stood, remaining))
		}
	}
}
