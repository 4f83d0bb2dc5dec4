package audit

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

const (
	maxQueue     = 8 * perObject    // how many records wait for a write
	writeEvery   = time.Second      // the records of most passes are one write
	writeTimeout = 5 * time.Second  // short, since the end of a process waits for it
	retryFor     = 5 * time.Minute  // how old a record may become that could not be written to the ring
	settles      = 30 * time.Second // how long an API server that has started may forbid what RBAC grants
	unknownActor = "unknown"
)

// Trail writes records in the background. What it cannot write to the ring it tries again, unless that has been
// forbidden for half a minute. What stays unwritten is counted, and delays nothing.
type Trail struct {
	Ring   *Ring
	File   io.Writer // receives lines of JSON; nil for none
	Origin Origin    // without the Actor
	WhoAmI func(context.Context) (actor string, err error)
	Now    func() time.Time  // the API server's time
	Failed func(records int) // counts records that the ring or the file lacks; by several goroutines
	Log    *slog.Logger

	mu             sync.Mutex
	queue          []Record
	waiting        []Record  // are in the file, and not yet in the ring; older than the queue
	last           uint64    // the number of the last record in the file
	hasFailed      bool      // the last write to the ring has
	forbiddenSince time.Time // RBAC or a policy has forbidden all writes to the ring since; zero if not the last one
	hasGivenUp     bool      // for so long that none is tried again
}

// Record keeps the record of an outcome until it is written. It does not block.
func (t *Trail) Record(o reconciler.Outcome) { t.add(Of(o)) }

func (t *Trail) add(r Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue)+len(t.waiting) >= maxQueue {
		t.Failed(1)
		return
	}
	t.queue = append(t.queue, r)
}

// Start begins to write. The function that it returns writes the last records, and ends that.
func (t *Trail) Start() (stop func()) {
	end := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for isOpen := true; isOpen; t.write(!isOpen) {
			select {
			case <-time.After(writeEvery):
			case <-end:
				isOpen = false
			}
		}
	})
	return func() {
		close(end)
		writer.Wait()
	}
}

// write writes what there is. Nothing is tried again after the last time.
func (t *Trail) write(isLast bool) {
	t.mu.Lock()
	fresh, records := t.queue, append(t.waiting, t.queue...)
	t.queue, t.waiting = nil, records
	t.mu.Unlock()
	if len(records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	var actorErr, fileErr error
	if before := t.Origin.Actor; before == "" || before == unknownActor {
		t.Origin.Actor, actorErr = t.WhoAmI(ctx)
		t.Origin.Actor = cmp.Or(t.Origin.Actor, unknownActor)
		if before == unknownActor {
			actorErr = nil // one warning is enough
		}
	}
	fresh = records[len(records)-len(fresh):]
	for i := range fresh {
		fresh[i].Origin = t.Origin
	}
	failed := 0
	if t.File != nil {
		for _, line := range linesOf(fresh, t.last) {
			if _, err := t.File.Write(append(line, '\n')); err != nil {
				fileErr = err
				failed++
			}
		}
		t.last += uint64(len(fresh))
	}
	now := t.Now()
	left, lost, ringErr := t.Ring.Append(ctx, now, records)
	switch isForbidden := errors.Is(ringErr, ErrForbidden); {
	case !isForbidden:
		t.forbiddenSince = time.Time{}
	case t.forbiddenSince.IsZero():
		t.forbiddenSince = now
	}
	givesUp, hasFailed := !t.forbiddenSince.IsZero() && now.Sub(t.forbiddenSince) >= settles, ringErr != nil
	left = slices.DeleteFunc(left, func(r Record) bool {
		ends := isLast || givesUp || now.Sub(r.Time) > retryFor
		if ends {
			lost++
		}
		return ends
	})
	t.mu.Lock()
	t.waiting = left
	t.mu.Unlock()
	if failed = max(failed, lost); failed > 0 {
		t.Failed(failed)
	}
	if givesUp && t.hasGivenUp || lost == 0 && t.hasFailed {
		ringErr = nil // one warning is enough
	}
	t.hasGivenUp, t.hasFailed = givesUp, hasFailed
	if err := errors.Join(actorErr, fileErr, ringErr); err != nil {
		t.Log.Warn("Could not write the history", "records", failed, "triesAgain", len(left), "error", err)
	}
}
