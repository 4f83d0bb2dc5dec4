package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	pingInterval = time.Second
	pingTimeout  = 3 * time.Second
	// outagePingInterval is the interval during an outage of the API server. Waiting ADDs retry every half second.
	outagePingInterval = 50 * time.Millisecond
	outagePingTimeout  = time.Second
	// fencedPingInterval is the interval under the fence.
	fencedPingInterval = 200 * time.Millisecond
	// maxWriteRate is more than any etcd writes in a second. minBump is less than any revision bump of a restore
	// (etcdutl's --bump-revision: Kubernetes' documentation has 10⁹).
	maxWriteRate = 20_000
	minBump      = 100_000
	// leaseExpiry is longer than a Lease of whereabouts lasts without a renewal.
	leaseExpiry = 5 * time.Second
)

// Run guards until the context ends. It leaves a raised fence to the other replicas.
func (g *Guard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.step(ctx)
		pause := pingInterval
		switch {
		case !g.outageStart.IsZero():
			pause = outagePingInterval
		case g.current != nil: // only this goroutine sets it
			pause = fencedPingInterval
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
	timeout := pingTimeout
	if !g.outageStart.IsZero() {
		timeout = outagePingTimeout
	}
	pingCtx, cancel := context.WithTimeout(ctx, timeout)
	answer, err := g.Detector.Ping(pingCtx)
	cancel()
	switch {
	case err == nil:
		g.handleAnswer(answer)
		g.handleReports()
	case ctx.Err() == nil && g.outageStart.IsZero():
		g.outageStart = time.Now()
		g.OnEvent(Unreachable{err})
	}
	if g.current != nil {
		state := g.Fence.State()
		g.updateFence(state)
		g.lowerIfDue(ctx, state)
	}
}

// handleAnswer raises the fence after a restore that an answer shows. A full pass after an outage detects the others.
func (g *Guard) handleAnswer(answer Answer) {
	outageStart := g.outageStart
	hadOutage := !outageStart.IsZero() || answer.HasReconnected && g.last.Revision != 0
	g.outageStart = time.Time{}
	g.updateLeases(hadOutage)
	if hadOutage {
		g.outageEnd = time.Now()
		g.Detector.RestartFullPass()
		g.FullPass()
		hasExpired := !outageStart.IsZero() && time.Since(outageStart) > leaseExpiry
		if was := g.current; was != nil && hasExpired { // nobody has renewed its Leases
			g.Fence.Leave()
			g.setCurrent(nil)
			g.mu.Lock()
			isNamed := g.unnamed == ""
			g.mu.Unlock()
			g.raise(was.why, isNamed)
		}
	}
	if answer.Revision == 0 {
		return
	}
	if why := restoreEvidence(g.last, answer, time.Since(g.lastAt)); why != "" {
		g.Detector.RecordRestore(why)
		g.raise(why, false)
	}
	g.last, g.lastAt = answer, time.Now()
}

// restoreEvidence returns how an answer shows that etcd was restored since the last one, "" if it does not.
func restoreEvidence(was, now Answer, between time.Duration) string {
	switch {
	case was.Revision == 0:
		return ""
	case now.Revision < was.Revision:
		return fmt.Sprintf("etcd is at resourceVersion %d after %d", now.Revision, was.Revision)
	case now.Lease.UID == was.Lease.UID && isOlder(now.Lease.ResourceVersion, was.Lease.ResourceVersion):
		return fmt.Sprintf("the Lease %s is at resourceVersion %s after %s", now.Lease.Name,
			now.Lease.ResourceVersion, was.Lease.ResourceVersion)
	case float64(now.Revision-was.Revision) > max(minBump, maxWriteRate*between.Seconds()):
		return fmt.Sprintf("etcd is at resourceVersion %d %s after %d", now.Revision, between.Round(time.Second),
			was.Revision)
	}
	return ""
}

// isOlder reports whether a resourceVersion is older than another; false where one of them is invalid.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// updateLeases updates the known Leases. After an outage and under the fence it only adds Leases, because a restore may
// have lost a pool of which a pod has an address.
func (g *Guard) updateLeases(hadOutage bool) {
	leases := g.Detector.Leases()
	if g.leases != nil && (hadOutage || time.Since(g.outageEnd) < g.Timeout || g.current != nil || len(leases) == 0) {
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

// handleReports raises the fence for a restore that a pass has reported.
func (g *Guard) handleReports() {
	g.mu.Lock()
	evidence, isNamed, leases := g.evidence, g.isEvidenceNamed, g.passLeases
	g.passLeases = nil
	if len(g.leases) > 0 || leases != nil { // else the pass that reported the restore has yet to report the Leases
		g.evidence, g.isEvidenceNamed = "", false
	}
	g.mu.Unlock()
	g.addLeases(leases)
	switch {
	case evidence != "":
		g.raise(evidence, isNamed)
	case leases != nil && g.current != nil: // add the Leases of new pools
		g.Fence.Raise(g.leases)
	}
}

// raise raises the fence over all known Leases. A fence that is raised already serves for this restore, too. isNamed
// says that its ID was reported.
func (g *Guard) raise(why string, isNamed bool) {
	if len(g.leases) == 0 {
		if !g.hasWarnedOfPools {
			g.hasWarnedOfPools = true
			g.OnEvent(NotRaised{why})
		}
		return
	}
	next := &guardFence{why: why, at: time.Now()}
	if was := g.current; was != nil {
		next.at, next.isComplete = was.at, was.isComplete
	} else {
		g.OnEvent(Raised{why, g.Timeout})
	}
	g.setCurrent(next)
	if !isNamed {
		g.expectName(why)
	}
	g.Fence.Raise(g.leases)
	g.FullPass()
}

func (g *Guard) setCurrent(next *guardFence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = next
}

// updateFence requests a full pass once the fence is complete.
func (g *Guard) updateFence(state FenceState) {
	if g.current.isComplete || state.Since.IsZero() {
		return
	}
	g.current.isComplete = true
	e := Complete{After: time.Since(g.current.at)}
	if since := time.Since(g.outageEnd); since < g.Timeout {
		e.SinceOutage = since
	}
	g.OnEvent(e)
	g.FullPass()
}

func (g *Guard) lowerIfDue(ctx context.Context, state FenceState) {
	g.mu.Lock()
	was, isLeader := *g.current, g.isLeader
	g.mu.Unlock()
	e := Lowered{Age: state.Age, IsLeader: isLeader}
	switch {
	case state.IsEndedByPeer && !isLeader:
		e.Outcome = ByPeer
	case !g.outageStart.IsZero() && !was.isRecovered: // ADDs and DELs wait for the API server anyway
		return
	case max(state.Age, time.Since(was.at)) >= g.Timeout: // also if the fence never held a Lease
		e.Outcome = TimedOut
		e.Remaining = cmp.Or(was.remaining, "no full pass was made under the fence")
		if len(state.Missing) > 0 {
			e.Remaining += "; Leases that the fence did not hold: " + strings.Join(state.Missing, ", ")
		}
	case was.isRecovered:
		e.Outcome = Settled
	default:
		return
	}
	if e.Outcome == Settled && was.isOthers {
		g.Fence.Leave()
	} else {
		g.Fence.Lower(ctx)
	}
	g.mu.Lock()
	g.current = nil
	g.mu.Unlock()
	g.OnEvent(e)
}
