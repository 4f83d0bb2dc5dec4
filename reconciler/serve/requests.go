package serve

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Requests are how other goroutines ask a Server for passes, also before it runs: the
// watches by Changed, the guard by FullPass. Neither blocks. A request that has not been
// taken yet stands for all that follow it; one that is made after it was taken leads to
// another pass.
type Requests struct {
	// Each has room for one element, which is the request.
	changed, fullPass chan struct{}
}

// NewRequests returns Requests with none made.
func NewRequests() *Requests {
	return &Requests{changed: make(chan struct{}, 1), fullPass: make(chan struct{}, 1)}
}

// Changed asks for a cache pass soon: something changed that may change a verdict.
func (r *Requests) Changed() { request(r.changed) }

// FullPass asks for a full pass soon.
func (r *Requests) FullPass() { request(r.fullPass) }

func request(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one that has not been taken
	}
}

// taken takes a request where there is one, and reports whether there was.
func taken(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// due is when one kind of pass is to be made next. Only the server's goroutine uses it.
type due struct {
	asap bool
	at   time.Time // zero for never
}

// after makes the pass due after a pause, or earlier where it was.
func (d *due) after(pause time.Duration) {
	d.at = reconciler.Sooner(d.at, time.Now().Add(pause))
}

// take reports whether the pass is due now, and counts it as made.
func (d *due) take(now time.Time) bool {
	is := d.asap
	d.asap = false
	if !d.at.IsZero() && !d.at.After(now) {
		d.at, is = time.Time{}, true
	}
	return is
}
