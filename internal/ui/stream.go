package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	maxStreams = 100
	// beatEvery is the interval of a stream's sign of life. A page that misses two connects again (web/app.js).
	beatEvery = 15 * time.Second
	// slowAfter limits one write of a stream: a reader that is slower is dropped.
	slowAfter = 10 * time.Second
)

// event reports which data is the newest.
type event struct {
	// Time is that of the judgement; absent before the first. It was shown first AgeSeconds ago.
	Time       time.Time `json:"time,omitzero"`
	AgeSeconds int       `json:"ageSeconds"`
	// IsSnapshot is true for a judgement that no newer one follows.
	IsSnapshot bool `json:"isSnapshot"`
	// Problem says why the data is not newer; absent without a problem.
	Problem string `json:"problem,omitempty"`
}

// Run ends all streams when the context ends, so that the server can shut down.
func (p *Page) Run(ctx context.Context) {
	<-ctx.Done()
	close(p.closed)
}

// IsWatched reports whether a page is open.
func (p *Page) IsWatched() bool { return p.streams.Load() > 0 }

// stream writes an event at once and after each change, until the reader, the server or the page ends it. A stream
// keeps no events: a slow reader gets the newest one.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	defer p.streams.Add(-1)
	if p.streams.Add(1) > maxStreams {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	now := p.current()
	for text := now.event(); ; {
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Now().Add(p.slowAfter)) // without one the connection's own limits apply
		if _, err := w.Write(text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		case <-beat.C:
			text = []byte(": \n\n")
		case <-now.changed:
			now = p.current()
			text = now.event()
		}
	}
}

// event is the state as an event of a stream.
func (s state) event() []byte {
	e := event{Problem: s.problem}
	if k := s.kept; k != nil {
		e.Time, e.AgeSeconds = k.view.Result.Observation.Now.UTC(), int(time.Since(k.shown).Seconds())
		e.IsSnapshot = k.view.Cluster.Snapshot != ""
	}
	d, _ := json.Marshal(e) // it has only texts, numbers and times
	return fmt.Appendf(nil, "data: %s\n\n", d)
}
