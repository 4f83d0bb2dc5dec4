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
func (p *Page) IsWatched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams) > 0
}

// stream writes an event at once and after each change, until the reader, the server or the page ends it. A stream
// keeps no events: a slow reader gets the newest one.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	if k, problem := p.current(); k == nil && !p.isLocal {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	changed := make(chan struct{}, 1)
	if !p.enter(changed) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer p.leave(changed)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	changed <- struct{}{}
	for {
		text := ": \n\n"
		select {
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		case <-beat.C:
		case <-changed:
			d, err := json.Marshal(p.newest())
			if err != nil {
				return
			}
			text = fmt.Sprintf("data: %s\n\n", d)
		}
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Now().Add(p.slowAfter)) // without one the connection's own limits apply
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
	}
}

func (p *Page) newest() event {
	k, problem := p.current()
	e := event{Problem: problem}
	if k != nil {
		e.Time, e.AgeSeconds = k.view.Judgement.Observation.Now.UTC(), int(time.Since(k.shown).Seconds())
		e.IsSnapshot = k.view.Cluster.Snapshot != ""
	}
	return e
}

func (p *Page) enter(changed chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.streams) >= maxStreams {
		return false
	}
	p.streams[changed] = true
	return true
}

func (p *Page) leave(changed chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, changed)
}
