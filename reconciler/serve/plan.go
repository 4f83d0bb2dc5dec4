package serve

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// sameRestoreWithin is within what time agents and passes tell of one restore.
const sameRestoreWithin = 10 * time.Minute

// plan makes the next passes due, by what a pass has found and left.
func (s *Server) plan(ctx context.Context, out *reconciler.Result, until time.Time) {
	failed := s.backOff(out)
	if until.IsZero() && slices.ContainsFunc(out.Refused, func(x reconciler.Refused) bool { return x.Why == reconciler.AwaitingConfirmation }) {
		until = out.Observation.Now.Add(time.Second) // the second check refused it: nothing else tells when
	}
	for object := range s.failing {
		if _, waits := s.retryAt[object]; !waits && !failed[object] {
			s.backoff.Forget(object)
			delete(s.failing, object)
		}
	}
	if s.CollectReports != nil {
		until = reconciler.Sooner(until, s.CollectReports(ctx, out))
	}
	if s.Caches.Synced() {
		until = reconciler.Sooner(until, out.Recheck)
	}
	until = reconciler.Sooner(until, out.Observation.Now.Add(observeEvery))
	s.planPass(until, out.Observation.Now)
	s.noticeRestore(out)
}

// planPass makes a pass due at a time of the observation's clock: a full one where there
// are no caches.
func (s *Server) planPass(at, now time.Time) {
	wait := max(at.Sub(now), 0) + time.Second // the API server's time is known to the second
	if s.Caches.Synced() {
		s.cachePass.after(wait)
	} else {
		s.fullPass.after(max(wait, lastRetry))
	}
}

// planForRestore has one full pass follow the other while the fence stands for a restore.
func (s *Server) planForRestore() {
	if s.Guard != nil && s.Guard.Restoring() {
		s.fullPass.after(restoreEvery)
	}
}

// backOff has what could not be written wait, longer after each failure. It returns
// the pools and reservations.
func (s *Server) backOff(out *reconciler.Result) (failed map[string]bool) {
	failed = map[string]bool{}
	for _, x := range out.Refused {
		switch x.Why {
		case reconciler.Changed, reconciler.LeaseBusy, reconciler.WriteFailed, reconciler.NoLease:
			failed[x.Object()] = true
			if _, waits := s.retryAt[x.Object()]; !waits {
				s.retryAt[x.Object()] = time.Now().Add(s.backoff.When(x.Object()))
			}
		}
	}
	maps.Copy(s.failing, failed)
	return failed
}

// mayRelease reports whether an item may be released now: it does not wait for a retry.
func (s *Server) mayRelease(it *judge.Item) bool {
	_, waits := s.retryAt[it.Object()]
	return !waits
}

// noticeRestore throws the caches away when etcd was restored, as a pass or an agent
// saw. To a process that has just started one of before is new only while it stands
// against releases.
func (s *Server) noticeRestore(out *reconciler.Result) {
	when, sign := s.Full.History.LastRestore()
	why := "etcd was restored (" + sign + ")"
	before := s.lastRestore
	if before == nil || when.After(*before) {
		s.lastRestore = &when
	}
	if before == nil {
		before = &when
		if slices.ContainsFunc(out.Refused, func(x reconciler.Refused) bool { return x.Why == reconciler.EtcdRestored }) {
			before = &time.Time{}
		}
	}
	if !when.After(before.Add(sameRestoreWithin)) {
		return
	}
	s.Recorder.restoreNoticed(why, when)
	s.Caches.Rebuild(why)
	if s.Guard != nil && out.Observation.Now.Sub(when) < sameRestoreWithin { // else it is too late
		s.Guard.RestoreReported(sign, when)
	}
}
