// Package serve is the long-running form of the reconciler.
//
// A Server makes two kinds of passes, which judge and release by the same code and differ
// in where the first observation comes from: a full pass reads everything by quorum, by a
// cron schedule and on request; a cache pass reads the watch caches of package informers,
// as soon as something changed or a time has come. After a cache pass the server pauses,
// and meanwhile releases only what a change has made stale (follow.go).
//
// Beside it, in every replica, a Guard notices restores of etcd and raises the fence:
// whereabouts' Leases are held, so that no address is handed out until the pools say what
// is in use. A Recorder tells of all of this in logs, metrics and events; Health answers
// the probes; ReportGC removes the reports of nodes that are gone.
//
// Read server.go first, then plan.go, follow.go and guard.go.
package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Config is what a Server works with.
type Config struct {
	// Full observes by quorum, Quick by the watch caches. They share their History: one
	// goroutine uses both.
	Full, Quick *reconciler.Reconciler
	Caches      Caches
	Schedule    *schedule.Schedule
	// Requests wake the server.
	Requests *Requests
	// CollectReports removes what is left of nodes that are gone, after each pass, and
	// returns when there may be more to remove; zero for never. nil removes nothing.
	CollectReports func(context.Context, *reconciler.Result) (next time.Time)
	// Guard raises the fence; nil for no fence.
	Guard    *Guard
	Recorder *Recorder
	Health   *Health
}

// Caches are what Quick observes.
type Caches interface {
	// Synced reports whether there are caches that have listed everything.
	Synced() bool
	// Rebuild throws the caches away and builds new ones.
	Rebuild(why string)
	// Changes returns what has changed since Quick observed last or since the last
	// call; nil where only a cache pass can tell.
	Changes(ctx context.Context) (*judge.Live, error)
}

// Server makes passes while its Run runs.
type Server struct {
	Config

	fullPass, cachePass due
	// retryAt is when what could not be written is tried again, by pool or reservation;
	// until then it is not released.
	retryAt map[string]time.Time
	// failing are the pools and reservations whose backoff grows.
	failing map[string]bool
	// backoff counts failures, by pool or reservation, fullPassKey and cachePassKey.
	backoff workqueue.TypedRateLimiter[string]
	// fullPassAsked: one was asked for because the caches cannot be relied upon.
	fullPassAsked bool
	// lastRestore is the last restore of etcd that is known; nil before the first pass.
	lastRestore *time.Time

	mu      sync.Mutex
	waiters []chan struct{} // are closed at the end of the next full pass that begins
}

// The keys in backoff that are no pool's or reservation's, which have a slash.
const (
	fullPassKey  = "full"
	cachePassKey = "cache"
)

const (
	// settleFor is how long a burst of changes may go on before a pass begins.
	settleFor = 100 * time.Millisecond
	// syncFor is for how long the first pass waits for the caches.
	syncFor = 10 * time.Second
	// firstRetry and lastRetry bound the pauses after failures.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// restoreEvery is how soon after a full pass the next one follows under the fence.
	restoreEvery = 500 * time.Millisecond
	// observeEvery is the longest pause between two passes, whatever the schedule. It bounds how long a failure
	// to observe goes undetected, and what only time or an operator changes is tried again by then.
	observeEvery = 5 * time.Minute
)

// New returns a Server.
func New(c Config) *Server {
	return &Server{
		Config: c, retryAt: map[string]time.Time{}, failing: map[string]bool{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
	}
}

// Run makes a full pass, and then whatever the schedule, the requests and the
// clock ask for, until the context ends. The error is the schedule's.
func (s *Server) Run(ctx context.Context) error {
	// A first pass that finds the caches can compare them.
	for end := time.Now().Add(syncFor); !s.Caches.Synced() && time.Now().Before(end) && ctx.Err() == nil; {
		sleep(ctx, settleFor)
	}
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { s.work(ctx) })
	defer working.Wait()
	defer stop() // also where the schedule cannot be run
	return s.Schedule.Run(ctx, s.askForFullPass)
}

// askForFullPass returns when a full pass that began after the call has ended.
func (s *Server) askForFullPass(ctx context.Context) {
	done := make(chan struct{})
	s.mu.Lock()
	s.waiters = append(s.waiters, done)
	s.mu.Unlock()
	s.Requests.FullPass()
	select {
	case <-ctx.Done():
	case <-done:
	}
}

func (s *Server) work(ctx context.Context) {
	for s.wait(ctx) {
		full := s.takeDue()
		s.Health.begin()
		var out *reconciler.Result
		if full {
			s.makeFullPass(ctx)
		} else {
			out = s.makeCachePass(ctx)
		}
		s.Health.end()
		if out != nil {
			s.pause(ctx, out)
		}
	}
}

// wait returns when a pass is due and the burst that asked for it is over; false when
// the context has ended.
func (s *Server) wait(ctx context.Context) bool {
	var timer <-chan time.Time
	if next := s.nextDue(); !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		timer = t.C
	}
	if !s.fullPass.asap && !s.cachePass.asap {
		select {
		case <-ctx.Done():
		case <-s.Requests.fullPass:
			s.fullPass.asap = true
		case <-s.Requests.changed:
			s.cachePass.asap = true
		case <-timer:
		}
	}
	sleep(ctx, settleFor)
	return ctx.Err() == nil
}

// nextDue is when the server has something to do that nobody requests; zero for never.
func (s *Server) nextDue() time.Time {
	next := reconciler.Sooner(s.fullPass.at, s.cachePass.at)
	for _, at := range s.retryAt {
		next = reconciler.Sooner(next, at)
	}
	return next
}

// takeDue takes all that is due, which one pass serves, and reports whether that must be
// a full one.
func (s *Server) takeDue() (full bool) {
	s.fullPass.asap = taken(s.Requests.fullPass) || s.fullPass.asap
	taken(s.Requests.changed) // the pass that follows finds it
	now := time.Now()
	full = s.fullPass.take(now)
	s.cachePass.take(now)
	for object, at := range s.retryAt {
		if !at.After(now) {
			delete(s.retryAt, object)
		}
	}
	return full
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (s *Server) makeFullPass(ctx context.Context) {
	s.mu.Lock()
	waiters := s.waiters
	s.waiters = nil
	s.mu.Unlock()
	s.fullPassAsked = false
	began := time.Now()
	s.Recorder.fullPassStarted()
	defer s.planForRestore()
	out, until, err := s.Full.Pass(ctx, nil)
	if err != nil && ctx.Err() == nil {
		s.retryFullPass()
	}
	if err == nil {
		s.plan(ctx, out, until)
		if s.Guard != nil {
			s.Guard.PassEnded(began, out)
		}
		if out.Observation.ReportsUnreadable || out.Observation.Paused || !out.Restore.Complete() {
			s.fullPass.after(observeEvery) // no cache pass would notice that it changes
		}
	}
	s.Recorder.fullPassEnded(out, time.Since(began), err)
	s.Health.passEnded(err)
	for _, w := range waiters {
		close(w)
	}
	s.Full.RecordPass(ctx, out, time.Since(began), err)
}

// makeCachePass observes all that the watches told, and releases what may be released
// now. It returns nil where it could not observe.
func (s *Server) makeCachePass(ctx context.Context) *reconciler.Result {
	out, until, err := s.Quick.Pass(ctx, s.mayRelease)
	s.Health.passEnded(err)
	s.Recorder.cachePassEnded(err)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, informers.ErrCacheUnverified):
		s.Recorder.cachesUnverified(err, s.backoff.NumRequeues(fullPassKey))
		switch {
		case !s.Caches.Synced(): // what this pass was for must not wait for the schedule
			s.fullPass.after(lastRetry)
		case !s.fullPassAsked:
			s.fullPassAsked = true
			s.retryFullPass()
		}
	case err != nil:
		s.cachePass.after(s.backoff.When(cachePassKey))
	default:
		s.backoff.Forget(cachePassKey)
		s.backoff.Forget(fullPassKey)
		s.plan(ctx, out, until)
		s.Recorder.record(out)
		return out
	}
	return nil
}

func (s *Server) retryFullPass() { s.fullPass.after(s.backoff.When(fullPassKey)) }
