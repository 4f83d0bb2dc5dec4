package audit

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	maxQueue     = 8 * perObject   // how many records wait for a write
	writeTimeout = 5 * time.Second // short, since the end of a process waits for it
)

// Config has the parts of a Trail.
type Config struct {
	Ring   *Ring
	File   io.Writer // receives lines of JSON; nil for none
	Origin Origin    // without the Actor
	WhoAmI func(context.Context) (actor string, err error)
	Now    func() time.Time  // the API server's time
	Failed func(records int) // counts records that are missing in the ring or the file; by several goroutines at once
	Log    *slog.Logger
}

// Trail writes records in the background. What it cannot write is counted, and delays nothing.
type Trail struct {
	Config

	mu    sync.Mutex
	queue []Record
	wake  chan struct{}
	end   chain // of the file
	// isForbidden is true once RBAC has forbidden a write to the ring.
	isForbidden bool
}

// New returns a Trail. It writes during Run.
func New(c Config) *Trail { return &Trail{Config: c, wake: make(chan struct{}, 1)} }

// Record keeps a record until it is written. It does not block.
func (t *Trail) Record(r Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == maxQueue {
		t.Failed(1)
		return
	}
	if t.queue = append(t.queue, r); len(t.queue) >= perObject {
		t.PassEnded()
	}
}

// PassEnded lets Run write the records of a pass. It does not block.
func (t *Trail) PassEnded() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Run writes records until the context ends, and then the last ones.
func (t *Trail) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.wake:
			t.write(ctx)
		}
	}
	t.write(ctx)
}

func (t *Trail) write(ctx context.Context) {
	t.mu.Lock()
	records := t.queue
	t.queue = nil
	t.mu.Unlock()
	if len(records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var actorErr, fileErr error
	if t.Origin.Actor == "" {
		if t.Origin.Actor, actorErr = t.WhoAmI(ctx); actorErr != nil {
			t.Origin.Actor = "unknown"
		}
	}
	for i := range records {
		records[i].Origin = t.Origin
	}
	if t.File != nil {
		for _, line := range t.end.add(records) {
			_, err := t.File.Write(append(line, '\n'))
			fileErr = cmp.Or(fileErr, err)
		}
	}
	ringErr := t.Ring.Append(ctx, t.Now(), records)
	if fileErr != nil || ringErr != nil {
		t.Failed(len(records))
	}
	if isForbidden := errors.Is(ringErr, ErrForbidden); isForbidden && t.isForbidden {
		ringErr = nil // one warning is enough
	} else {
		t.isForbidden = isForbidden
	}
	if err := errors.Join(actorErr, fileErr, ringErr); err != nil {
		t.Log.Warn("Could not write the history", "records", len(records), "error", err)
	}
}
