package serve

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Requests are the passes that are due: a queue with the keys fullPass and cachePass. Its
// methods do not block and may be called before a Server runs, by any goroutine.
// Requests for the same pass are one until that pass begins; a request that comes
// later leads to another pass. Of several delays of the same pass the shortest counts.
type Requests struct {
	workqueue.TypedDelayingInterface[string]
}

// The keys of the queue. With write they are those of Server.backoff, too.
const (
	fullPass  = "full"
	cachePass = "cache"
	write     = "write"
)

// settleFor is how long a burst of changes may go on before a pass begins.
const settleFor = 100 * time.Millisecond

// NewRequests returns Requests with none made. ShutDown ends their goroutine.
func NewRequests() *Requests {
	return &Requests{workqueue.NewTypedDelayingQueue[string]()}
}

// Changed requests a cache pass soon: something changed that may change a verdict.
func (r *Requests) Changed() { r.AddAfter(cachePass, settleFor) }

// FullPass requests a full pass soon.
func (r *Requests) FullPass() { r.AddAfter(fullPass, settleFor) }

// request puts an element into a channel that has room for one.
func request(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one that has not been taken
	}
}
