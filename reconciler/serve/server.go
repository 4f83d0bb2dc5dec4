// Package serve is the long-running form: full passes by a schedule, and between
// them looks at what the watches tell, as soon as something changed or a time
// has come. All of them judge and release by the same code; they differ in where
// the first look comes from.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Server makes passes while its Run runs. Its fields are set before.
type Server struct {
	// Full looks by quorum, Quick by what the watches told. They share their
	// History: one goroutine uses both.
	Full, Quick *reconciler.Reconciler
	Caches      Caches
	Schedule    *schedule.Schedule
	// Sweep removes what is left of nodes that are gone, after each pass.
	Sweep func(context.Context, *reconciler.Result) (next time.Time)
	// Guard raises the fence; nil for no fence.
	Guard    *Guard
	Recorder *Recorder
	State    *Health
	Clock    clock.WithTicker
	Log      *slog.Logger

	moved   chan struct{} // something changed since a look
	queue   workqueue.TypedRateLimitingInterface[string]
	waiting map[string]bool // pools and reservations that are left alone for a while
	failing map[string]bool // those whose pauses grow
	asked   bool            // a full pass was asked for because the caches cannot be relied upon
	seen    *time.Time      // the last restore of etcd that is known; nil before the first look

	mu      sync.Mutex
	waiters []chan struct{} // of those who wait for the end of a full pass that has not begun
}

// Caches are what Quick looks at.
type Caches interface {
	// Synced reports whether there are caches.
	Synced() bool
	// Rebuild throws them away and builds new ones.
	Rebuild(why string)
	// Changes are what has changed since Quick looked last or since the last call;
	// nil where only a look at everything tells.
	Changes(ctx context.Context) (*reconciler.Live, error)
}

// The keys of the queue that are no pool's or reservation's, which have a slash.
const (
	fullPass = "full"
	aLook    = "look"
)

const (
	// settleFor is how long a burst of changes may go on before it is looked at.
	settleFor = 100 * time.Millisecond
	// rest is how many times longer than a look the pause after it is, so that
	// looks at everything never take more than a fifth of a core. What changes
	// meanwhile is followed.
	rest    = 4
	maxRest = 5 * time.Second
	// syncFor is for how long the first pass waits for the caches.
	syncFor = 10 * time.Second
	// firstRetry and lastRetry bound the pauses after failures.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// sameRestoreWithin is within what time agents and looks tell of one restore.
	sameRestoreWithin = 10 * time.Minute
	// restoreEvery is how soon after a full pass the next one follows under the fence.
	restoreEvery = 500 * time.Millisecond
	// later is when what only time or an operator changes is tried again.
	later = 5 * time.Minute
)

// Init makes the queue, so that Changed may be called. It is not needed again.
func (s *Server) Init() {
	s.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: s.Clock})
	s.waiting, s.failing, s.moved = map[string]bool{}, map[string]bool{}, make(chan struct{}, 1)
}

// Changed asks for a look soon. It does not block.
func (s *Server) Changed() {
	s.queue.Add(aLook)
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// Run makes a full pass, and then whatever the schedule, the watches and the
// clock ask for, until the context ends. The error is the schedule's.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.queue.ShutDown)
	defer stop()
	// A first pass that finds the caches can compare them.
	for end := s.Clock.Now().Add(syncFor); !s.Caches.Synced() && s.Clock.Now().Before(end) && ctx.Err() == nil; {
		s.sleep(ctx, settleFor)
	}
	var working sync.WaitGroup
	working.Go(func() { s.work(ctx) })
	defer working.Wait()
	defer s.queue.ShutDown() // also where the schedule cannot be run
	return s.Schedule.Run(ctx, s.askForFullPass)
}

// FullPass asks for a full pass soon, even before this replica leads. It does not block.
func (s *Server) FullPass() { s.queue.Add(fullPass) }

// askForFullPass returns when a full pass that began after the call has ended.
func (s *Server) askForFullPass(ctx context.Context) {
	done := make(chan struct{})
	s.mu.Lock()
	s.waiters = append(s.waiters, done)
	s.mu.Unlock()
	s.queue.Add(fullPass)
	select {
	case <-ctx.Done():
	case <-done:
	}
}

func (s *Server) work(ctx context.Context) {
	for {
		first, ended := s.queue.Get()
		if ended {
			return
		}
		keys := s.gather(ctx, first)
		s.State.begin()
		var out *reconciler.Result
		if keys[fullPass] {
			s.full(ctx)
		} else {
			out = s.look(ctx)
		}
		s.State.end()
		if out != nil {
			s.rest(ctx, out)
		}
	}
}

// gather waits for the end of a burst and takes all that is to be looked at:
// one look serves all.
func (s *Server) gather(ctx context.Context, first string) map[string]bool {
	s.queue.Done(first) // here, so that what comes while it settles is taken too
	s.sleep(ctx, settleFor)
	keys := map[string]bool{first: true}
	for s.queue.Len() > 0 {
		key, ended := s.queue.Get()
		if ended {
			break
		}
		s.queue.Done(key)
		keys[key] = true
	}
	for key := range keys {
		delete(s.waiting, key)
	}
	return keys
}

func (s *Server) sleep(ctx context.Context, d time.Duration) {
	t := s.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}

// full makes a full pass.
func (s *Server) full(ctx context.Context) {
	s.mu.Lock()
	waiters := s.waiters
	s.waiters = nil
	s.mu.Unlock()
	s.asked = false
	began := s.Clock.Now()
	s.Recorder.fullPassStarted()
	defer s.restoring()
	out, until, err := s.Full.Pass(ctx, nil)
	if err != nil && ctx.Err() == nil {
		s.queue.AddRateLimited(fullPass)
	}
	if err == nil {
		s.after(ctx, out, until)
		if s.Guard != nil {
			s.Guard.PassEnded(began, out)
		}
		if out.Observation.ReportsUnreadable || out.Observation.Paused {
			s.queue.AddAfter(fullPass, later) // looks at the caches take it from here where it is not watched
		}
	}
	s.Recorder.fullPassEnded(out, s.Clock.Since(began), err)
	s.State.passEnded(err)
	for _, w := range waiters {
		close(w)
	}
}

// restoring has one full pass follow the other while the fence stands for a restore.
func (s *Server) restoring() {
	if s.Guard != nil && s.Guard.Restoring() {
		s.queue.AddAfter(fullPass, restoreEvery)
	}
}

// look looks at all that the watches told, and releases what may be released now.
// It returns nil where it could not look.
func (s *Server) look(ctx context.Context) *reconciler.Result {
	s.notMoved()
	out, until, err := s.Quick.Pass(ctx, s.ready)
	s.State.passEnded(err)
	s.Recorder.cachePassEnded(err)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, informers.ErrCacheUnverified):
		s.Recorder.cachesUnverified(err, s.queue.NumRequeues(fullPass))
		switch {
		case !s.Caches.Synced(): // what this look was for must not wait for the schedule
			s.queue.AddAfter(fullPass, lastRetry)
		case !s.asked:
			s.asked = true
			s.queue.AddRateLimited(fullPass)
		}
	case err != nil:
		s.queue.AddRateLimited(aLook)
	default:
		s.queue.Forget(aLook)
		s.queue.Forget(fullPass)
		s.after(ctx, out, until)
		s.Recorder.record(out)
		return out
	}
	return nil
}

// after plans what comes next.
func (s *Server) after(ctx context.Context, out *reconciler.Result, until time.Time) {
	failed, planned := s.leaveAlone(out), until
	for _, x := range out.Refused {
		switch x.Why {
		case reconciler.Breaker, reconciler.AwaitingConfirmation:
			pause := later
			if x.Why == reconciler.AwaitingConfirmation && planned.IsZero() { // the second check refused it: nothing else tells when
				pause = time.Second
			}
			until = reconciler.Sooner(until, out.Observation.Now.Add(pause))
		}
	}
	for object := range s.failing {
		if !failed[object] && !s.waiting[object] {
			s.queue.Forget(object)
			delete(s.failing, object)
		}
	}
	if len(out.Unrepaired) > 0 {
		until = reconciler.Sooner(until, out.Observation.Now.Add(later))
	}
	if s.Sweep != nil {
		until = reconciler.Sooner(until, s.Sweep(ctx, out))
	}
	if s.Caches.Synced() {
		until = reconciler.Sooner(until, out.Due)
	}
	if !until.IsZero() {
		s.at(until, out.Observation.Now)
	}
	s.restored(out)
}

// leaveAlone has what could not be written wait for its turn, longer each time. It
// returns the pools and reservations.
func (s *Server) leaveAlone(out *reconciler.Result) (failed map[string]bool) {
	failed = map[string]bool{}
	for _, x := range out.Refused {
		switch x.Why {
		case reconciler.Changed, reconciler.LeaseBusy, reconciler.WriteFailed, reconciler.NoLease:
			failed[x.Object()] = true
			if !s.waiting[x.Object()] {
				s.waiting[x.Object()] = true
				s.queue.AddRateLimited(x.Object())
			}
		}
	}
	maps.Copy(s.failing, failed)
	return failed
}

// at asks for a look, or where there are no caches for a full pass, when a time
// has passed.
func (s *Server) at(until, now time.Time) {
	wait := max(until.Sub(now), 0) + time.Second // the API server's time is known to the second
	if s.Caches.Synced() {
		s.queue.AddAfter(aLook, wait)
	} else {
		s.queue.AddAfter(fullPass, max(wait, lastRetry))
	}
}

// restored throws the caches away when etcd was restored, as a look or an agent
// saw. To a process that has just started one of before is news only while it stands
// against releases.
func (s *Server) restored(out *reconciler.Result) {
	when, sign := s.Full.History.LastRestore()
	why := "etcd was restored (" + sign + ")"
	before := s.seen
	if before == nil || when.After(*before) {
		s.seen = &when
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
