package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// Run guards until the context ends. Then a fence is left to the other replica.
func (g *Guard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.step(ctx)
		pause := pingInterval
		switch {
		case !g.awaySince.IsZero():
			pause = awayPingInterval
		case !g.raisedAt.IsZero():
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
	if answer, answers := g.ping(ctx); answers {
		g.noteAnswer(answer)
		g.handleReports(ctx)
	}
	g.noteStanding()
	g.lowerIfDue(ctx)
}

// ping asks whether the API server is there.
func (g *Guard) ping(ctx context.Context) (answer kube.Answer, answers bool) {
	limit := pingTimeout
	if !g.awaySince.IsZero() {
		limit = awayPingTimeout
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := g.Detector.Ping(asked)
	if err != nil && ctx.Err() == nil && g.awaySince.IsZero() {
		g.Log.Debug("the API server is away", "error", err)
		g.awaySince = time.Now()
	}
	return answer, err == nil
}

// noteAnswer raises the fence where an answer shows that etcd was restored. After a time without the API server it asks
// for a full pass, which shows any other restore.
func (g *Guard) noteAnswer(answer kube.Answer) {
	awaySince := g.awaySince
	wasAway := !awaySince.IsZero() || answer.Reconnected && g.last.Revision != 0
	g.awaySince = time.Time{}
	g.updateLeases(wasAway)
	if wasAway {
		g.answeredAt = time.Now()
		g.Detector.RestartFullPass()
		g.FullPass()
		if !g.raisedAt.IsZero() && !awaySince.IsZero() && time.Since(awaySince) > leaseExpiry { // nothing was kept from anybody meanwhile
			g.Fence.Leave()
			g.raisedAt = time.Time{}
			g.raiseForRestore(g.restoreReason)
		}
	}
	if answer.Revision != 0 {
		if why := g.restoreShownBy(answer); why != "" {
			g.restoreDetected(why)
		}
		g.last, g.lastAt = answer, time.Now()
	}
}

// restoreShownBy returns how an answer with a revision shows that etcd was restored since the
// last one, "" if it does not.
func (g *Guard) restoreShownBy(now kube.Answer) string {
	took := time.Since(g.lastAt)
	switch was := g.last; {
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

// updateLeases notes which Leases there are. While something is amiss those that were known before stay: a restore may
// have lost a pool that a pod has an address of.
func (g *Guard) updateLeases(amiss bool) {
	leases := g.Detector.Leases()
	if g.leases != nil && (amiss || time.Since(g.answeredAt) < g.Timeout || !g.raisedAt.IsZero() || len(leases) == 0) {
		mergeLeases(g.leases, leases)
		return
	}
	g.leases = leases
}

// noteStanding notes when the fence stands, or stands again.
func (g *Guard) noteStanding() {
	since := g.Fence.State().Since
	if g.raisedAt.IsZero() || since.Equal(g.fenceSince) {
		return
	}
	g.fenceSince = since
	if since.IsZero() {
		return
	}
	g.mu.Lock()
	isFirst := g.standingSince.IsZero()
	g.standingSince = time.Now()
	g.mu.Unlock()
	g.Metrics.fence.Set(1)
	if !isFirst {
		return
	}
	attrs := []any{"took", time.Since(g.raisedAt).Round(time.Millisecond)}
	if since := time.Since(g.answeredAt); since < g.Timeout {
		attrs = append(attrs, "sinceTheAPIServerAnswers", since.Round(time.Millisecond))
	}
	g.Log.Info("the fence stands: ADDs and DELs wait", attrs...)
	g.FullPass()
}

// restoreDetected raises the fence for a restore that no pass has shown yet.
func (g *Guard) restoreDetected(why string) {
	g.Detector.RecordRestore(why)
	g.raiseForRestore(why)
}

// handleReports takes what passes have reported, and what the fence of another replica says.
func (g *Guard) handleReports(ctx context.Context) {
	g.mu.Lock()
	reported, leases, leading := g.reportedRestore, g.passLeases, g.leading
	g.reportedRestore, g.passLeases = "", nil
	g.mu.Unlock()
	if leases != nil {
		if g.leases == nil {
			g.leases = map[string][]string{}
		}
		mergeLeases(g.leases, leases)
	}
	switch {
	case reported != "":
		g.raiseForRestore(reported)
	case leases == nil:
	case !g.raisedAt.IsZero(): // there may be more pools
		g.Fence.Raise(g.leases, g.restoreReason)
	case leading: // a replica that has just begun to lead may know of no restore
		asked, cancel := context.WithTimeout(ctx, peerTimeout)
		peer, err := g.Fence.PeerFence(asked, leases)
		cancel()
		if err != nil {
			g.Log.Debug("it cannot be told whether another replica keeps the fence", "error", err)
		}
		if peer != "" {
			g.restoreDetected("another replica says: " + peer)
		}
	}
}

// raiseForRestore raises the fence, where it is known over which Leases.
func (g *Guard) raiseForRestore(why string) {
	if len(g.leases) == 0 {
		if !g.warnedNoLeases && g.leases == nil {
			g.Log.Warn("no fence can be raised: it is not known yet where pools are", "why", why)
			g.warnedNoLeases = true
		}
		return
	}
	g.mu.Lock()
	isNew := g.restoreReason == ""
	g.restoreReason, g.recovered, g.remaining = why, false, ""
	if g.raisedAt.IsZero() {
		g.raisedAt, g.standingSince, g.fenceSince = time.Now(), time.Time{}, time.Time{}
	}
	g.mu.Unlock()
	g.Log.Debug("the fence is raised", "why", why, "leases", g.leases)
	g.Fence.Raise(g.leases, why)
	if isNew {
		text := "etcd was restored: whereabouts' Leases are kept, so that nothing is handed out before the pools say what runs"
		g.Log.Error(text, "why", why, "atMost", g.Timeout)
		g.Events.aboutSelf("FenceRaised", text+", at most for "+g.Timeout.String()+": "+why)
	}
	g.FullPass()
}

// Outcomes of a fence.
const (
	outcomeSettled     = "Settled"
	outcomeTimedOut    = "TimedOut"
	outcomeEndedByPeer = "" // by the other replica, which counts it
)

// lowerIfDue lowers the fence when its time has come.
func (g *Guard) lowerIfDue(ctx context.Context) {
	if g.raisedAt.IsZero() {
		return
	}
	state := g.Fence.State()
	g.mu.Lock()
	why, recovered, remaining, leading := g.restoreReason, g.recovered, g.remaining, g.leading
	g.mu.Unlock()
	var outcome string
	switch {
	case state.EndedByPeer && !leading:
		outcome = outcomeEndedByPeer
	case !g.awaySince.IsZero() && !recovered: // nobody waits for it
		return
	case max(state.Age, time.Since(g.raisedAt)) >= g.Timeout: // also where none of the Leases could be had
		outcome = outcomeTimedOut
	case recovered:
		outcome = outcomeSettled
	default:
		return
	}
	g.Fence.Lower(ctx)
	g.raisedAt = time.Time{}
	g.mu.Lock()
	g.endedRestore, g.endedAt = why, g.Detector.Now()
	g.restoreReason, g.recovered, g.remaining, g.standingSince = "", false, "", time.Time{}
	g.mu.Unlock()
	if outcome == outcomeTimedOut && !leading && remaining == "" {
		remaining = "this replica does not lead, and makes no passes: the leader's log has what is left"
	}
	g.reportLowered(outcome, state, remaining, leading)
}

func (g *Guard) reportLowered(outcome string, state kube.FenceState, remaining string, leading bool) {
	g.Metrics.fenceLowered(outcome, state.Age)
	stood := state.Age.Round(time.Millisecond)
	switch outcome {
	case outcomeSettled:
		g.Log.Info("the fence is lowered: after the restore of etcd all is settled", "stood", stood)
	case outcomeTimedOut:
		remaining = cmp.Or(remaining, "no full pass was made under it")
		if len(state.Missing) > 0 {
			remaining += "; not held were " + strings.Join(state.Missing, ", ")
		}
		g.Log.Error("the fence is lowered, since ADDs and DELs must not wait for longer: addresses may be handed out that are in use", "stood", stood, "left", remaining)
		if !leading {
			return // the leader's event says more
		}
		g.Events.aboutSelf("FenceTimedOut", fmt.Sprintf("after %s ADDs and DELs go on, although not all is settled: %s", stood, remaining))
	default:
		g.Log.Info("the fence was lowered by the other replica", "stood", stood)
	}
}
