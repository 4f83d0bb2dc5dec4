// Package serve is the long-running form of the reconciler.
//
// A Server makes two kinds of passes, which judge and release by the same code and differ
// in where the first observation comes from: a full pass reads everything by quorum, by a
// cron schedule and on request; a cache pass reads the watch caches of package informers,
// as soon as something changed or a time has come. Cache passes take a fifth of a core at
// most.
//
// Beside the Server, in every replica, a Guard detects restores of etcd and raises the
// fence: it holds whereabouts' Leases, so that no address is handed out until the pools
// record what is in use. A Recorder writes logs, metrics and events; Health answers
// the probes; ReportGC removes the reports of nodes that are gone.
//
// Read server.go first, then passes.go and guard.go.
package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Config is what a Server works with.
type Config struct {
	// Full observes by quorum, Quick by the watch caches. They share their History: one
	// goroutine uses both.
	Full, Quick *reconciler.Reconciler
	Caches      Caches
	Schedule    *schedule.Schedule
	// Requests wake the server, which shuts them down when it ends.
	Requests *Requests
	// CollectReports removes the reports of nodes that are gone, after each pass, and
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
}

// Server makes passes while its Run runs.
type Server struct {
	Config

	// isFullPass is true while a full pass is made.
	isFullPass atomic.Bool
	// restUntil is when the next cache pass may begin.
	restUntil time.Time
	// failed are the pools and reservations that could not be written, which are tried again at retryAt.
	failed  sets.Set[string]
	retryAt time.Time
	// backoff counts failures, by fullPass, cachePass and write.
	backoff workqueue.TypedRateLimiter[string]
	// isFullPassRequested: one was requested because the caches cannot be relied upon.
	isFullPassRequested bool
	// lastRestore is the last restore of etcd that is known, once a pass was made.
	lastRestore time.Time
	hasPassed   bool
}

const (
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
	// judgeEvery is the longest pause between two cache passes: some verdicts and findings change with time alone.
	judgeEvery = 30 * time.Second
	// restFactor is how many times longer than a cache pass the rest after it is, so
	// that cache passes take a fifth of a core at most.
	restFactor = 4
	maxRest    = 30 * time.Second
)

// New returns a Server.
func New(c Config) *Server {
	return &Server{
		Config: c, failed: sets.New[string](),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
	}
}

// Run makes a full pass, and then whatever the schedule, the requests and the
// clock ask for, until the context ends. The error is the schedule's.
func (s *Server) Run(ctx context.Context) error {
	// A first pass that finds the caches can compare them.
	for end := time.Now().Add(syncFor); !s.Caches.Synced() && time.Now().Before(end) && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(settleFor):
		}
	}
	var working sync.WaitGroup
	working.Go(func() { s.work(ctx) })
	defer working.Wait()
	defer s.Requests.ShutDown() // also where the schedule cannot be run
	return s.Schedule.Run(ctx, s.fullPassDue)
}

// fullPassDue requests the full pass that the schedule asks for. Full passes that take
// longer than their period leave pauses between them, like a CronJob's with
// concurrencyPolicy Forbid.
func (s *Server) fullPassDue() {
	if s.isFullPass.Load() {
		s.Recorder.Log.Info("a pass is due, and skipped: the one before it still runs")
		return
	}
	s.Requests.FullPass()
}

// work makes the passes that are due, one after the other, until Requests are shut down.
func (s *Server) work(ctx context.Context) {
	for {
		pass, isShutDown := s.Requests.Get()
		if isShutDown || ctx.Err() != nil {
			return
		}
		if rest := time.Until(s.restUntil); pass == cachePass && rest > 0 {
			s.Requests.AddAfter(cachePass, rest)
		} else {
			s.Health.setBusy(true)
			s.isFullPass.Store(pass == fullPass)
			if pass == fullPass {
				s.makeFullPass(ctx)
			} else {
				s.makeCachePass(ctx)
			}
			s.isFullPass.Store(false)
			s.Health.setBusy(false)
		}
		s.Requests.Done(pass)
	}
}
