package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// sameRestoreWithin is within what time agents and passes report one restore.
const sameRestoreWithin = 10 * time.Minute

// makeFullPass observes by quorum, and releases what may be released now.
func (s *Server) makeFullPass(ctx context.Context) {
	s.isFullPassRequested = false
	began := time.Now()
	s.Recorder.fullPassStarted()
	out, until, err := s.Full.Pass(ctx, nil)
	took := time.Since(began)
	if err == nil {
		s.plan(ctx, out, until, began)
		if s.Guard != nil {
			s.Guard.PassEnded(out)
		}
		if out.Observation.ReportsUnreadable || out.Observation.Paused || !out.Restore.Complete() {
			s.Requests.AddAfter(fullPass, observeEvery) // no cache pass would observe that it changes
		}
	} else if ctx.Err() == nil {
		s.Requests.AddAfter(fullPass, s.backoff.When(fullPass))
	}
	if s.Guard != nil && s.Guard.Restoring() {
		s.Requests.AddAfter(fullPass, restoreEvery)
	}
	s.Recorder.fullPassEnded(out, took, err, s.Schedule.InForce())
	s.Health.passEnded(err)
	s.Full.RecordPass(ctx, out, took, err)
}

// makeCachePass observes what the caches hold, and releases what may be released now.
func (s *Server) makeCachePass(ctx context.Context) {
	began := time.Now()
	isReady := func(it *judge.Item) bool { return !s.retryAt.After(began) || !s.failed.Has(it.Object()) }
	out, until, err := s.Quick.Pass(ctx, isReady)
	ended := time.Now()
	s.Health.passEnded(err)
	s.Recorder.cachePassEnded(err, s.backoff.NumRequeues(fullPass))
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, informers.ErrCacheUnverified):
		switch {
		case !s.Caches.Synced(): // what this pass was for must not wait for the schedule
			s.Requests.AddAfter(fullPass, lastRetry)
		case !s.isFullPassRequested:
			s.isFullPassRequested = true
			s.Requests.AddAfter(fullPass, s.backoff.When(fullPass))
		}
	case err != nil:
		s.Requests.AddAfter(cachePass, s.backoff.When(cachePass))
	default:
		s.backoff.Forget(cachePass)
		s.backoff.Forget(fullPass)
		s.plan(ctx, out, until, began)
		s.Recorder.record(out)
		worked := out.CheckDuration + time.Since(ended)
		if out.Attempts > 0 { // the second check judges again
			worked += out.CheckDuration
		}
		s.restUntil = time.Now().Add(min(restFactor*worked, maxRest))
	}
}

// plan makes the next pass due, by what one has found and left. It is a full one where there
// are no caches.
func (s *Server) plan(ctx context.Context, out *reconciler.Result, until, began time.Time) {
	s.backOff(out, began)
	now := out.Observation.Now
	if until.IsZero() && hasRefused(out, reconciler.AwaitingConfirmation) {
		until = now.Add(time.Second) // the second check refused it: nothing else tells when
	}
	if s.CollectReports != nil {
		until = reconciler.EarliestNonZero(until, s.CollectReports(ctx, out))
	}
	synced := s.Caches.Synced()
	if synced {
		until = reconciler.EarliestNonZero(reconciler.EarliestNonZero(until, out.Recheck), now.Add(judgeEvery))
	}
	until = reconciler.EarliestNonZero(until, now.Add(observeEvery))
	wait := max(until.Sub(now), 0) + time.Second // the API server's time is known to the second
	if synced {
		s.Requests.AddAfter(cachePass, wait)
	} else {
		s.Requests.AddAfter(fullPass, max(wait, lastRetry))
	}
	s.noticeRestore(out)
}

// hasRefused reports whether a pass refused to release something for a reason.
func hasRefused(out *reconciler.Result, why reconciler.Refusal) bool {
	return slices.ContainsFunc(out.Refused, func(x reconciler.Refused) bool { return x.Why == why })
}

// backOff has what could not be written wait, longer after each pass that has tried it and failed again.
func (s *Server) backOff(out *reconciler.Result, began time.Time) {
	isTried := !s.retryAt.After(began)
	if isTried {
		s.failed.Clear()
	}
	for _, x := range out.Refused {
		switch x.Why {
		case reconciler.Changed, reconciler.LeaseBusy, reconciler.WriteFailed, reconciler.NoLease:
			s.failed.Insert(x.Object())
		}
	}
	switch {
	case s.failed.Len() == 0:
		s.backoff.Forget(write)
		return
	case isTried:
		s.retryAt = time.Now().Add(s.backoff.When(write))
	}
	s.Requests.AddAfter(cachePass, time.Until(s.retryAt))
}

// noticeRestore throws the caches away when etcd was restored, as a pass or an agent
// saw. To a process that has just started one of before is new only while it stands
// against releases.
func (s *Server) noticeRestore(out *reconciler.Result) {
	when, sign := s.Full.History.LastRestore()
	isKnown := !when.After(s.lastRestore.Add(sameRestoreWithin))
	if !s.hasPassed {
		isKnown = isKnown || !hasRefused(out, reconciler.EtcdRestored)
	}
	s.hasPassed = true
	if when.After(s.lastRestore) {
		s.lastRestore = when
	}
	if isKnown {
		return
	}
	why := "etcd was restored (" + sign + ")"
	s.Recorder.restoreNoticed(why, when)
	s.Caches.Rebuild(why)
	if s.Guard != nil && out.Observation.Now.Sub(when) < sameRestoreWithin { // else it is too late
		s.Guard.RestoreReported(sign, when)
	}
}
