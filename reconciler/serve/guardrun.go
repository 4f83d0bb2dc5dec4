package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// Run guards until the context ends. A fence that stands for a restore is left to the
// other replica then.
func (g *Guard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.step(ctx)
		pause := pulseEvery
		switch {
		case g.away:
			pause = tryEvery
		case !g.raisedAt.IsZero():
			pause = stepEvery
		}
		select {
		case <-ctx.Done():
		case <-g.woken:
		case <-g.stood:
			g.stands()
		case <-time.After(pause):
		}
	}
	if g.Restoring() {
		g.Fence.Leave()
		return
	}
	g.Fence.Lower(ctx, false)
}

func (g *Guard) step(ctx context.Context) {
	was := g.away
	revision, answers := g.pulse(ctx)
	if answers {
		g.known(was)
		if was {
			g.back()
		}
		if revision != 0 && revision < g.revision {
			why := fmt.Sprintf("etcd is at resourceVersion %d after %d", revision, g.revision)
			g.sawRestore(why)
		}
		g.revision = cmp.Or(revision, g.revision)
		if !g.asking && g.raisedAt.IsZero() {
			g.intact = g.Signs.Now()
		}
		g.ask(ctx)
		g.told(ctx)
	}
	g.end(ctx)
}

// pulse asks whether the API server is there. A failure that is followed at once by an
// answer is a connection's: no control plane is restored in between.
func (g *Guard) pulse(ctx context.Context) (revision uint64, answers bool) {
	for try := 1; ; try++ {
		limit := pulseFor
		if g.away || try > 1 {
			limit = tryFor
		}
		asked, cancel := context.WithTimeout(ctx, limit)
		revision, err := g.Signs.Pulse(asked)
		hung := asked.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return 0, false
		case err == nil:
			g.away = false
			return revision, true
		case g.away:
			return 0, false
		case hung || try > 1:
			g.Log.Debug("the API server is away", "error", err)
			g.away, g.gone = true, time.Now()
			return 0, false
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * tryEvery):
		}
	}
}

// known keeps which Leases there are. While something is amiss what was known before
// stays: a restore may have lost a pool that a pod has an address of.
func (g *Guard) known(amiss bool) {
	leases := g.Signs.Leases()
	if g.leases != nil && (amiss || g.asking || !g.raisedAt.IsZero() || len(leases) == 0) {
		merge(g.leases, leases)
		return
	}
	g.leases = leases
}

// back begins what is to be done after a time without the API server.
func (g *Guard) back() {
	g.answered, g.asking, g.limit = time.Now(), true, askFirst
	g.Signs.LookAgain()
	restoring := g.Restoring()
	if !g.raisedAt.IsZero() && time.Since(g.gone) > expired { // nothing was kept from anybody meanwhile
		g.Fence.Leave()
		g.raisedAt, g.stood = time.Time{}, nil
	}
	if restoring || time.Now().After(g.rests) {
		g.raise("the API server was away")
	}
}

// raise raises the fence where it is known over what.
func (g *Guard) raise(why string) {
	if len(g.leases) == 0 {
		if !g.unknown && g.leases == nil {
			g.Log.Warn("no fence can be raised: it is not known yet where pools are", "why", why)
			g.unknown = true
		}
		return
	}
	g.Log.Debug("the fence is raised", "why", why, "leases", g.leases)
	if g.raisedAt.IsZero() {
		g.raisedAt = time.Now()
		g.mu.Lock()
		g.stoodAt = time.Time{}
		g.mu.Unlock()
	}
	g.stood = g.Fence.Raise(g.leases)
}

// stands tells that the fence stands.
func (g *Guard) stands() {
	g.stood = nil
	g.mu.Lock()
	first := g.stoodAt.IsZero()
	g.stoodAt = time.Now()
	g.mu.Unlock()
	g.Metrics.fence.Set(1)
	if !first {
		return
	}
	attrs := []any{"took", time.Since(g.raisedAt).Round(time.Millisecond)}
	if !g.answered.IsZero() {
		attrs = append(attrs, "sinceTheAPIServerAnswers", time.Since(g.answered).Round(time.Millisecond))
	}
	g.Log.Info("the fence stands: ADDs and DELs wait", attrs...)
	g.FullPass()
}

// ask asks whether etcd was restored. An error is no answer.
func (g *Guard) ask(ctx context.Context) {
	if !g.asking {
		return
	}
	limit := g.limit
	if !g.raisedAt.IsZero() { // the fence must not wait for this
		limit = min(limit, max(g.Timeout-g.age(), tryEvery))
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why, err := g.Signs.RanBackwards(asked)
	if err != nil {
		g.Log.Debug("it cannot be told yet whether etcd was restored", "error", err)
		if asked.Err() != nil {
			g.limit = min(2*g.limit, askFor)
		}
		return
	}
	g.asking = false
	g.Signs.LookAgain() // all is served now
	if why != "" {
		g.sawRestore(why)
	}
}

// sawRestore raises the fence for a restore that no look has shown yet.
func (g *Guard) sawRestore(why string) {
	g.Signs.Restored(why, g.intact)
	g.restore(why, false)
}

// join raises the fence for a restore that another replica knows of, whose fence is of
// this age. A process that began after the restore does not know when all was last well
// before it.
func (g *Guard) join(told string, age time.Duration) {
	why, intact := "another replica says: "+told, g.intact
	if before := g.Signs.Now().Add(-age - fencedWithin); intact.After(before) {
		intact = before
	}
	g.Signs.Restored(why, intact)
	g.restore(why, true)
}

// told takes in what looks have told.
func (g *Guard) told(ctx context.Context) {
	g.mu.Lock()
	shown, looked, leads := g.shown, g.looked, g.leads
	g.shown, g.looked = "", nil
	g.mu.Unlock()
	if looked != nil {
		if g.leases == nil {
			g.leases = map[string][]string{}
		}
		merge(g.leases, looked)
	}
	switch told := g.Fence.Told(); {
	case shown != "":
		g.restore(shown, false)
	case told != "" && !g.Restoring():
		g.join(told, g.Fence.Age())
	case looked == nil:
	case !g.raisedAt.IsZero():
		if !g.Fence.Covers(looked) {
			g.raise("there are more pools")
		}
	case leads: // who has just begun to lead may know of no restore
		asked, cancel := context.WithTimeout(ctx, askFirst)
		told, age, err := g.Fence.Others(asked, looked)
		cancel()
		if err != nil {
			g.Log.Debug("it cannot be told whether another replica keeps the fence", "error", err)
		}
		if told != "" {
			g.join(told, age)
		}
	}
}

// restore raises the fence for a restore.
func (g *Guard) restore(why string, joined bool) {
	g.mu.Lock()
	news := g.restored == ""
	g.restored, g.settled, g.left = why, false, ""
	g.mu.Unlock()
	g.asking = false
	g.raise(why)
	if g.raisedAt.IsZero() {
		g.mu.Lock()
		g.restored = ""
		g.mu.Unlock()
		return
	}
	if !joined {
		g.Fence.Know(why)
	}
	if news {
		text := "etcd was restored: whereabouts' Leases are kept, so that nothing is handed out before the pools say what runs"
		g.Log.Error(text, "why", why, "atMost", g.Timeout)
		g.Events.self("FenceRaised", text+", at most for "+g.Timeout.String()+": "+why)
	}
	g.FullPass()
}

// Outcomes of a fence.
const (
	noRestore = "NoRestore"
	settled   = "Settled"
	timedOut  = "TimedOut"
	dropped   = "" // by the other replica, which counts it
)

// end lowers the fence when its time has come.
func (g *Guard) end(ctx context.Context) {
	if g.raisedAt.IsZero() {
		return
	}
	g.mu.Lock()
	restored, done, left, leads := g.restored, g.settled, g.left, g.leads
	taken := !g.stoodAt.IsZero() || time.Since(g.raisedAt) > takeFor
	g.mu.Unlock()
	var outcome string
	switch {
	case g.Fence.Dropped():
		outcome = dropped
	case g.age() >= g.Timeout && !g.away: // else nobody waits for it
		outcome = timedOut
	case restored == "" && !g.asking && !g.away && taken: // until then another replica may have something to say
		outcome = noRestore
	case done:
		outcome = settled
	default:
		return
	}
	age, missing := g.Fence.Age(), g.Fence.Missing()
	g.Fence.Lower(ctx, outcome != noRestore)
	g.raisedAt, g.stood, g.answered = time.Time{}, nil, time.Time{}
	g.asking = g.asking && outcome == dropped // the other replica may know less
	g.rests = time.Now().Add(fenceRest)
	g.mu.Lock()
	if restored != "" {
		g.ended, g.over = restored, g.Signs.Now()
	}
	g.restored, g.settled, g.left, g.stoodAt = "", false, "", time.Time{}
	g.mu.Unlock()
	if outcome == timedOut && !leads && left == "" {
		left = "this replica does not lead, and looks at nothing: the leader's log has what is left"
	}
	g.tell(outcome, age, left, missing, leads)
}

// age is that of the fence, also where none of the Leases could be had.
func (g *Guard) age() time.Duration { return max(g.Fence.Age(), time.Since(g.raisedAt)) }

func (g *Guard) tell(outcome string, age time.Duration, left string, missing []string, leads bool) {
	g.Metrics.lowered(outcome, age)
	stood := age.Round(time.Millisecond)
	switch outcome {
	case noRestore:
		g.Log.Info("the fence is lowered: the API server was away, and etcd was not restored", "stood", stood)
	case settled:
		g.Log.Info("the fence is lowered: after the restore of etcd all is settled", "stood", stood)
	case timedOut:
		left = cmp.Or(left, "no full pass was made under it")
		if len(missing) > 0 {
			left += "; not held were " + strings.Join(missing, ", ")
		}
		g.Log.Error("the fence is lowered, since ADDs and DELs must not wait for longer: addresses may be handed out that are in use", "stood", stood, "left", left)
		if !leads {
			return // the leader tells more
		}
		g.Events.self("FenceTimedOut", fmt.Sprintf("after %s ADDs and DELs go on, although not all is settled: %s", stood, left))
	default:
		g.Log.Info("the fence was lowered by the other replica", "stood", stood)
	}
}
