package serve

import (
	"context"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// pauseFactor is how many times longer than a cache pass the pause after it is, so
	// that cache passes never take more than a fifth of a core.
	pauseFactor = 4
	maxPause    = 5 * time.Second
)

// pause waits until the next cache pass may begin. Meanwhile it follows what changes.
func (s *Server) pause(ctx context.Context, out *reconciler.Result) {
	d := min(pauseFactor*out.CheckDuration, maxPause)
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-s.Requests.changed:
			s.cachePass.asap = true // after the pause: following a change does not judge everything
		}
		sleep(ctx, settleFor)
		if ctx.Err() != nil {
			return
		}
		done := s.follow(ctx, out)
		switch {
		case done == nil: // the next cache pass will tell
			select {
			case <-ctx.Done():
			case <-end.C:
			}
			return
		case done.Tried > 0: // a second check reads as much as a cache pass
			sleep(ctx, d)
			return
		}
	}
}

// follow releases what may be released because of what has changed since the last pass.
// It returns nil where only a cache pass tells what has changed.
func (s *Server) follow(ctx context.Context, last *reconciler.Result) *reconciler.Result {
	// Before what has changed is asked for: that has all so far.
	s.cachePass.asap = taken(s.Requests.changed) || s.cachePass.asap
	changes, err := s.Caches.Changes(ctx)
	if err != nil || changes == nil {
		return nil
	}
	s.Health.begin()
	defer s.Health.end()
	released := map[judge.ID]bool{} // the watches may not have told of that yet
	for _, it := range last.Released {
		released[it.ID()] = true
	}
	out := s.Quick.Follow(ctx, last.Judgement, changes, func(it *judge.Item) bool { return s.mayRelease(it) && !released[it.ID()] })
	s.backOff(out)
	s.Recorder.recordFollowed(out)
	s.noticeRestore(out)
	return out
}
