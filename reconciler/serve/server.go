// Package serve is the long-running reconciler.
//
// A Server makes full passes and cache passes. They differ in the source of their first observation. A full pass reads
// everything by quorum. It is made by a cron schedule and on request. A cache pass reads the watch caches of package
// informers, after a change or at a time that the last pass has set. Cache passes use at most a fifth of a core.
//
// In every replica a restore.Guard detects restores of etcd and raises the fence. A Recorder makes logs, metrics and
// Events of the results of passes and of the Guard's events. Read server.go first, then passes.go and recorder.go.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Config has the parts of a Server.
type Config struct {
	// Full observes by quorum, Quick by the watch caches. They share their Process.
	Full, Quick *reconciler.Reconciler
	Caches      Caches
	Schedule    *schedule.Schedule
	// Requests wake the server. It shuts them down when it ends.
	Requests *Requests
	// CollectReports, if set, is ReportGC.Collect. It runs after each pass.
	CollectReports func(context.Context, *reconciler.Result) (next time.Time)
	// OnPass, if set, receives the result of each pass, or why a pass has failed. It may keep the result.
	OnPass func(out *reconciler.Result, err error)
	// AfterFullPass, if set, runs after each full pass. What the pass has read is garbage then.
	AfterFullPass func()
	// Guard raises the fence; nil without a fence.
	Guard    *restore.Guard
	Recorder *Recorder
	Health   *Health
}

// Caches are the watch caches, an informers.Source.
type Caches interface {
	Synced() bool
	Rebuild(why string)
}

// Server makes passes during Run.
type Server struct {
	Config

	// isFullPass is true during a full pass.
	isFullPass atomic.Bool
	// nextCachePass is when the next cache pass may start.
	nextCachePass time.Time
	// unwritten are the pools and reservations whose writes failed. They are tried again at retryAt.
	unwritten sets.Set[string]
	retryAt   time.Time
	// backoff counts failures, by fullPass, cachePass and write.
	backoff workqueue.TypedRateLimiter[string]
	// hasRequestedFullPass is true if unverified caches have requested a full pass that has not started.
	hasRequestedFullPass bool
	// nextPolled is when the next full pass is due if a kind cannot be watched.
	nextPolled time.Time
	// lastRestore is the ID of the last known restore of etcd, if hasPassed.
	lastRestore string
	hasPassed   bool // a pass has succeeded
}

const (
	// syncTimeout is how long the first pass waits for the caches.
	syncTimeout = 10 * time.Second
	// minRetry and maxRetry bound the pauses after failures.
	minRetry = time.Second
	maxRetry = 30 * time.Second
	// fencedEvery is the pause between full passes under the fence.
	fencedEvery = 500 * time.Millisecond
	// observeEvery is the maximum pause between two passes. A failure to observe is detected within that time.
	observeEvery = 5 * time.Minute
	// judgeEvery is the maximum pause between two cache passes, since some verdicts change with time alone.
	judgeEvery = 30 * time.Second
	// pollEvery is the time between the starts of two full passes while a kind cannot be watched, for passes that take
	// less than a fifth of it. maxPollRest is the longest rest after a longer pass.
	pollEvery   = time.Minute
	maxPollRest = 2 * time.Minute
	// restFactor is the rest after a cache pass, or a full pass that polls, in durations of that pass.
	restFactor = 4
	maxRest    = 30 * time.Second
)

// New returns a Server.
func New(c Config) *Server {
	return &Server{
		Config: c, unwritten: sets.New[string](),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry),
	}
}

// Run makes a full pass, and then passes by schedule, request and time, until the context ends.
func (s *Server) Run(ctx context.Context) error {
	// The first pass verifies the caches, if they are synced.
	isSynced := func(context.Context) (bool, error) { return s.Caches.Synced(), nil }
	_ = wait.PollUntilContextTimeout(ctx, settleFor, syncTimeout, true, isSynced)
	var worker sync.WaitGroup
	worker.Go(func() { s.work(ctx) })
	defer worker.Wait()
	defer s.Requests.ShutDown() // also if the schedule fails
	return s.Schedule.Run(ctx, s.requestScheduled)
}

// requestScheduled requests a full pass, unless one runs, like a CronJob that forbids concurrency.
func (s *Server) requestScheduled() {
	if s.isFullPass.Load() {
		s.Recorder.Log.Info("Skipping a scheduled pass, the previous one still runs")
		return
	}
	s.Requests.FullPass()
}

// work makes the requested passes one after the other, until Requests are shut down.
func (s *Server) work(ctx context.Context) {
	for {
		pass, isShutDown := s.Requests.Get()
		if isShutDown || ctx.Err() != nil {
			return
		}
		switch rest := time.Until(s.nextCachePass); {
		case pass == fullPass:
			s.isFullPass.Store(true)
			s.makeFullPass(ctx)
			s.isFullPass.Store(false)
		case rest > 0:
			s.Requests.AddAfter(cachePass, rest)
		default:
			s.makeCachePass(ctx)
		}
		s.Requests.Done(pass)
	}
}

// Requests are a queue of the keys fullPass and cachePass. Its methods do not block, and are safe for concurrent use.
// Requests for the same pass are one until that pass starts, a later one is another. The shortest delay counts.
type Requests struct {
	workqueue.TypedDelayingInterface[string]
}

// The keys of Requests and of Server.backoff.
const (
	fullPass  = "full"
	cachePass = "cache"
	write     = "write"
)

// settleFor is the delay that makes one pass of a burst of changes.
const settleFor = 50 * time.Millisecond

// NewRequests returns empty Requests. ShutDown ends their goroutine.
func NewRequests() *Requests {
	return &Requests{workqueue.NewTypedDelayingQueue[string]()}
}

// CachePass requests a cache pass soon.
func (r *Requests) CachePass() { r.AddAfter(cachePass, settleFor) }

// FullPass requests a full pass soon.
func (r *Requests) FullPass() { r.AddAfter(fullPass, settleFor) }

const (
	// stuckAfter is how long the leader may make no progress: twice observeEvery. A pass progresses with every page of
	// a list and every batch of releases.
	stuckAfter = 10 * time.Minute
	// notReadyAfter is how long passes may fail until the leader is not ready.
	notReadyAfter = 5 * time.Minute
)

// Health answers the liveness and readiness probes. It is safe for concurrent use.
type Health struct {
	isSynced func() bool

	mu              sync.Mutex
	isLeader        bool
	lastProgress    time.Time // of a pass
	lastObservation time.Time // end of the last successful pass
	lastError       error     // of the last pass
}

// NewHealth returns a Health. isSynced is Synced of the caches.
func NewHealth(isSynced func() bool) *Health {
	return &Health{isSynced: isSynced}
}

// Lead records that this process is the leader.
func (h *Health) Lead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isLeader, h.lastProgress, h.lastObservation = true, time.Now(), time.Now()
}

// Progress records progress of a pass.
func (h *Health) Progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastProgress = time.Now()
}

func (h *Health) passEnded(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastProgress, h.lastError = time.Now(), err
	if err == nil {
		h.lastObservation = time.Now()
	}
}

// Alive returns an error if the leader is stuck.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastProgress); h.isLeader && since > stuckAfter {
		return fmt.Errorf("a pass has made no progress for %s", since.Round(time.Second))
	}
	return nil
}

// Ready returns an error if this process cannot make passes, or could not as the leader.
func (h *Health) Ready(*http.Request) error {
	if !h.isSynced() {
		return errors.New("the watch caches are not synced")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastObservation); h.isLeader && h.lastError != nil && since > notReadyAfter {
		return fmt.Errorf("no pass has succeeded for %s: %w", since.Round(time.Second), h.lastError)
	}
	return nil
}
