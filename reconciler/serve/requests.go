package serve

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

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
const settleFor = 100 * time.Millisecond

// NewRequests returns empty Requests. ShutDown ends their goroutine.
func NewRequests() *Requests {
	return &Requests{workqueue.NewTypedDelayingQueue[string]()}
}

// CachePass requests a cache pass soon.
func (r *Requests) CachePass() { r.AddAfter(cachePass, settleFor) }

// FullPass requests a full pass soon.
func (r *Requests) FullPass() { r.AddAfter(fullPass, settleFor) }
