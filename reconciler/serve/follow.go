package serve

import (
	"context"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// rest follows what changes until everything may be looked at again.
func (s *Server) rest(ctx context.Context, out *reconciler.Result) {
	d := min(rest*out.CheckDuration, maxRest)
	end := s.Clock.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C():
			return
		case <-s.moved:
		}
		s.sleep(ctx, settleFor)
		if ctx.Err() != nil {
			return
		}
		done := s.follow(ctx, out)
		switch {
		case done == nil: // a look at everything will tell
			select {
			case <-ctx.Done():
			case <-end.C():
			}
			return
		case done.Tried > 0: // a second check reads as much as a look
			s.sleep(ctx, d)
			return
		}
	}
}

// follow releases what may be released because of what has changed since a look. It
// returns nil where only a look at everything tells what has changed.
func (s *Server) follow(ctx context.Context, last *reconciler.Result) *reconciler.Result {
	s.notMoved()
	changes, err := s.Caches.Changes(ctx)
	if err != nil || changes == nil {
		return nil
	}
	s.State.begin()
	defer s.State.end()
	released := map[reconciler.ID]bool{} // the watches may not have told of that yet
	for _, it := range last.Released {
		released[it.ID()] = true
	}
	out := s.Quick.Follow(ctx, last.Judgement, changes, func(it *reconciler.Item) bool { return s.ready(it) && !released[it.ID()] })
	s.leaveAlone(out)
	s.Recorder.recordFollowed(out)
	s.restored(out)
	return out
}

// ready reports whether an item may be released now.
func (s *Server) ready(it *reconciler.Item) bool { return !s.waiting[it.Object()] }

// notMoved is called before what has changed is asked for: that has all so far.
func (s *Server) notMoved() {
	select {
	case <-s.moved:
	default:
	}
}
