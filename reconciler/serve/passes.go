package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// makeFullPass makes a pass that observes by quorum.
func (s *Server) makeFullPass(ctx context.Context) {
	s.hasRequestedFullPass = false
	start := time.Now()
	s.Recorder.fullPassStarted()
	before := s.Full.Process.Known.ID()
	out, until, err := s.Full.Pass(ctx, nil)
	took := time.Since(start)
	s.nextPolled = time.Now().Add(max(pollEvery-took, min(restFactor*took, maxPollRest)))
	if err == nil {
		s.plan(ctx, out, until, start)
		if s.Guard != nil {
			s.Guard.PassEnded(out.RestorePass(leasesOf(out)))
		}
		if !out.Observation.Reports.IsKnown() || out.Observation.Paused || !out.Restore.Complete() {
			s.Requests.AddAfter(fullPass, observeEvery) // a cache pass does not observe these changes
		}
	} else if ctx.Err() == nil {
		s.Requests.AddAfter(fullPass, s.backoff.When(fullPass))
		when, _ := s.Full.Process.Known.Last()
		if id := s.Full.Process.Known.ID(); id != before && time.Since(when).Abs() < fenceWithin {
			s.announceRestore(true) // ADDs must not go on until a pass succeeds
		}
	}
	if s.Guard != nil && s.Guard.IsFenced() {
		s.Requests.AddAfter(fullPass, fencedEvery)
	}
	s.Recorder.fullPassEnded(out, took, err, s.Schedule.InForce())
	s.Health.passEnded(err)
	s.Full.RecordPass(ctx, out, took, err)
	if s.show(out, err); s.AfterFullPass != nil {
		s.AfterFullPass()
	}
}

// leasesOf returns whereabouts' Leases of the pools, by namespace, and of those that a repair creates.
func leasesOf(out *reconciler.Result) map[string][]string {
	pools := slices.Clone(out.Observation.Pools)
	for i := range out.Findings {
		if r := out.Findings[i].Repair; r != nil && r.NewPool {
			pools = append(pools, r.Pool)
		}
	}
	return ippool.LeasesOf(pools)
}

// show hands over a result, which may be read beside later passes: they change nothing that it has.
func (s *Server) show(out *reconciler.Result, err error) {
	if s.OnPass != nil {
		s.OnPass(out, err)
	}
}

// makeCachePass makes a pass that observes the watch caches.
func (s *Server) makeCachePass(ctx context.Context) {
	start := time.Now()
	isReady := func(it *judge.Item) bool { return !s.retryAt.After(start) || !s.unwritten.Has(it.Object()) }
	out, until, err := s.Quick.Pass(ctx, isReady)
	end := time.Now()
	s.Health.passEnded(err)
	s.Recorder.cachePassEnded(err, s.backoff.NumRequeues(fullPass))
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, informers.ErrCacheUnverified):
		switch {
		case !s.Caches.Synced():
			s.Requests.AddAfter(fullPass, maxRetry)
		case s.hasRequestedFullPass:
		case errors.Is(err, informers.ErrPolled):
			s.hasRequestedFullPass = true
			s.Requests.AddAfter(fullPass, time.Until(s.nextPolled))
		default:
			s.hasRequestedFullPass = true
			s.Requests.AddAfter(fullPass, s.backoff.When(fullPass))
		}
	case err != nil:
		s.Requests.AddAfter(cachePass, s.backoff.When(cachePass))
		s.show(nil, err)
	default:
		s.backoff.Forget(cachePass)
		s.backoff.Forget(fullPass)
		if !out.Restore.Complete() { // only a full pass settles the restore
			s.Requests.AddAfter(fullPass, observeEvery)
		}
		s.plan(ctx, out, until, start)
		s.Recorder.record(out)
		s.show(out, nil)
		work := out.CheckDuration + time.Since(end)
		if out.Attempts > 0 { // the second check judges again
			work += out.CheckDuration
		}
		s.nextCachePass = time.Now().Add(min(restFactor*work, maxRest))
	}
}

// plan requests the pass that must follow a pass. Without caches it is a full pass.
func (s *Server) plan(ctx context.Context, out *reconciler.Result, until, start time.Time) {
	s.backOff(out, start)
	now := out.Observation.Now
	if until.IsZero() && hasRefused(out, plan.AwaitingConfirmation) {
		until = now.Add(time.Second) // refused by the second check, which sets no time
	}
	if s.CollectReports != nil {
		until = plan.EarliestNonZero(until, s.CollectReports(ctx, out))
	}
	pass, maxPause, minPause := fullPass, observeEvery, maxRetry
	if s.Caches.Synced() {
		pass, maxPause, minPause = cachePass, judgeEvery, 0
		until = plan.EarliestNonZero(until, out.Recheck)
	}
	until = plan.EarliestNonZero(until, now.Add(maxPause))
	wait := max(until.Sub(now), 0) + time.Second // the API server's time has a resolution of seconds
	s.Requests.AddAfter(pass, max(wait, minPause))
	if s.Full.Process.Known.AwaitsRead(out.Judgement) {
		s.Requests.AddAfter(fullPass, fencedEvery)
	}
	s.handleRestore(out)
}

func hasRefused(out *reconciler.Result, why plan.Refusal) bool {
	return slices.ContainsFunc(out.Refused, func(x plan.Refused) bool { return x.Why == why })
}

// backOff delays the next try of failed writes, for longer after each pass that has tried them.
func (s *Server) backOff(out *reconciler.Result, start time.Time) {
	hasTried := !s.retryAt.After(start)
	if hasTried {
		s.unwritten.Clear()
	}
	for _, x := range out.Refused {
		if x.Why.IsFailure() {
			s.unwritten.Insert(x.Object())
		}
	}
	switch {
	case s.unwritten.Len() == 0:
		s.backoff.Forget(write)
		return
	case hasTried:
		s.retryAt = time.Now().Add(s.backoff.When(write))
	}
	s.Requests.AddAfter(cachePass, time.Until(s.retryAt))
}

// fenceWithin is how young a restore must be for a fence: later, ADDs have assigned what the pools lacked.
const fenceWithin = 10 * time.Minute

// handleRestore rebuilds the caches and raises the fence after a new restore of etcd. For the first pass of a process,
// an earlier restore is new until all nodes have reported, and for ten minutes while something remains to be repaired;
// for later passes, one that may be of the one before is not.
func (s *Server) handleRestore(out *reconciler.Result) {
	known := s.Full.Process.Known
	id := known.ID()
	when, _ := known.Last()
	isRecent := out.Observation.Now.Sub(when) < fenceWithin
	isKnown := id == s.lastRestore || s.hasPassed && known.IsAgain()
	if !s.hasPassed {
		isFenced := s.Guard != nil && s.Guard.IsFenced() // this process has detected it, too
		isKnown = isKnown || !isFenced && out.Restore.Complete() && (out.ToRepair == 0 || !isRecent)
	}
	s.hasPassed, s.lastRestore = true, id
	if !isKnown {
		s.announceRestore(isRecent)
	}
}

// announceRestore rebuilds the caches after the last restore, and raises the fence if that is recent: else it is too
// late.
func (s *Server) announceRestore(isRecent bool) {
	id := s.Full.Process.Known.ID()
	when, evidence := s.Full.Process.Known.Last()
	s.lastRestore = id
	s.Recorder.restoreDetected(id, evidence, when)
	s.Caches.Rebuild("etcd was restored: " + evidence)
	if s.Guard != nil && isRecent {
		s.Guard.ReportRestore(id, evidence)
	}
}
