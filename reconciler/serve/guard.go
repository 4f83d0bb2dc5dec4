package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// Guard raises the fence when etcd may have been restored, and lowers it when it was
// not, or when all is settled. It runs in every replica: the one that led has often
// ended by the time that the API server is back.
//
// Fence first, ask later: once the API server answers again after it did not, the fence
// is raised, and only then what the caches hold is compared. A watch that ends in the
// ordinary way, a conflict or a 429 is no such time.
type Guard struct {
	Fence Fence
	Signs Signs
	// Timeout is how long a fence may stand, at most 90 s: an ADD waits up to 2 min
	// for its turn.
	Timeout time.Duration
	// FullPass asks for a full pass soon. It must not block.
	FullPass func()
	Metrics  *Metrics
	Events   *Events
	Log      *slog.Logger

	woken chan struct{}

	// What the goroutine of Run alone uses:
	leases   map[string][]string // of the pools, when all was well
	revision uint64
	away     bool
	intact   time.Time // when the API server last answered while all was well, by its clock
	answered time.Time // when the API server first answered again
	raisedAt time.Time // zero while the fence is not raised
	stood    <-chan struct{}
	asking   bool          // it is not known yet whether etcd was restored
	limit    time.Duration // of the next comparison
	rests    time.Time     // until when no fence is raised for nothing but that the API server was away
	unknown  bool          // it was said that the Leases are not known
	gone     time.Time     // since when the API server is away

	mu       sync.Mutex
	leads    bool
	shown    string    // what showed others that etcd was restored
	ended    string    // what showed the restore whose fence was the last to end
	over     time.Time // when that ended, by the API server's clock
	looked   map[string][]string
	restored string    // what showed it, for the fence that is raised
	stoodAt  time.Time // since when the fence stands, by our own clock
	left     string    // what the last full pass under the fence left to be settled
	settled  bool      // nothing
}

// Fence is kube's.
type Fence interface {
	Lead()
	Raise(leases map[string][]string) (stood <-chan struct{})
	Lower(ctx context.Context, over bool)
	Leave()
	Covers(leases map[string][]string) bool
	Age() time.Duration
	Since() (since time.Time, standing bool)
	Dropped() bool
	Know(why string)
	Told() string
	Missing() []string
	Others(ctx context.Context, leases map[string][]string) (why string, age time.Duration, err error)
}

// Signs are how it is noticed that etcd was restored.
type Signs interface {
	// Pulse returns etcd's revision, 0 where it is not told. The error says that the
	// API server does not answer, or cannot.
	Pulse(ctx context.Context) (revision uint64, err error)
	// Leases are whereabouts' Leases for the pools that are known, by namespace.
	Leases() map[string][]string
	// LookAgain has a full look that is under way begin again.
	LookAgain()
	// RanBackwards says what shows that etcd was restored since the watches told of
	// what they did, "" if nothing does.
	RanBackwards(ctx context.Context) (why string, err error)
	// Restored takes in that it was, and when the API server last answered before, by
	// its clock; zero if that is not known.
	Restored(why string, intact time.Time)
	// Now is the time by the API server's clock.
	Now() time.Time
}

// MaxFence is for how long a fence may stand.
const MaxFence = kube.LongestFence

const (
	// pulseEvery is how often the API server is asked while all is well.
	pulseEvery = time.Second
	// pulseFor is how long it may take to answer then.
	pulseFor = 3 * time.Second
	// tryEvery is how often it is asked while it is away: ADDs that wait for it ask
	// every half second.
	tryEvery = 50 * time.Millisecond
	tryFor   = time.Second
	// stepEvery is how often it is asked while the fence is raised.
	stepEvery = 200 * time.Millisecond
	// askFirst is how long the first comparison may take, and askFor the longest: an API
	// server that has just begun answers that it is asked again after 5 s.
	askFirst = time.Second
	askFor   = 16 * time.Second
	// takeFor is how long the Leases may take to be had before that counts for nothing.
	takeFor = 2 * time.Second
	// expired is after how long Leases that nobody renewed have surely gone to others.
	expired = 5 * time.Second
	// fencedWithin is how soon after the API server answers again a fence is taken.
	fencedWithin = 5 * time.Second
	// fenceRest is for how long after a fence no other is raised, but for a restore.
	fenceRest = 30 * time.Second
)

// Init makes the channel, so that the methods may be called.
func (g *Guard) Init() { g.woken = make(chan struct{}, 1) }

// Lead says that this replica leads from now on.
func (g *Guard) Lead() {
	g.Fence.Lead()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leads = true
}

// Restored takes in that a look or an agent showed that etcd was restored, and its date by
// the API server's clock. One whose fence has ended is no news: who begins to lead tells of
// it by its date, or as what this replica itself has noticed by the date of now.
func (g *Guard) Restored(why string, at time.Time) {
	g.mu.Lock()
	if at.After(g.over) && (why != g.ended || at.Sub(g.over) > sameRestore) {
		g.shown = why
	}
	g.mu.Unlock()
	g.wake()
}

// Restoring reports whether the fence is raised for a restore: then full passes follow
// each other at once.
func (g *Guard) Restoring() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.restored != ""
}

// Passed takes in a full pass that began at a time by our own clock.
func (g *Guard) Passed(began time.Time, out *reconciler.Result) {
	leases := ippool.LeasesOf(out.Observation.Pools)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked = leases
	if g.restored != "" && !g.stoodAt.IsZero() && began.After(g.stoodAt) {
		since, standing := g.Fence.Since()
		g.left = unsettled(out, since)
		g.settled = standing && g.left == ""
	}
	g.wake()
}

func merge(into, from map[string][]string) {
	for namespace, names := range from {
		for _, name := range names {
			if !slices.Contains(into[namespace], name) {
				into[namespace] = append(into[namespace], name)
			}
		}
	}
}

func (g *Guard) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

// CheckFence checks --fence-timeout.
func CheckFence(timeout time.Duration) error {
	if timeout < 0 || timeout > MaxFence {
		return fmt.Errorf("--fence-timeout %s: must be between 0, which is no fence, and %s: an ADD waits 2m for its turn", timeout, MaxFence)
	}
	return nil
}
