package informers

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"

	"k8s.io/client-go/rest"
)

// watchTracker knows which watches are open, and whether a request of the caches has
// failed. A cache by itself does not tell: it serves what it has for as long as
// it cannot reach the API server.
type watchTracker struct {
	onChange func() // a watch has been opened, or the first request since a verification has failed

	mu          sync.Mutex
	open        map[string]int // watches, by resource
	lastFailure error          // since the caches were verified
	failures    int            // so far
	opens       int            // watches opened so far
}

func newWatchTracker(onChange func()) *watchTracker {
	return &watchTracker{onChange: onChange, open: map[string]int{}}
}

// wrap makes the tracker see all requests of a client.
func (t *watchTracker) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{t, next} })
}

type roundTripper struct {
	tracker *watchTracker
	next    http.RoundTripper
}

func (rt roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := rt.next.RoundTrip(r)
	resource := path.Base(r.URL.Path)
	switch {
	case err != nil && r.Context().Err() != nil: // we ended it
	case err != nil:
		rt.tracker.requestFailed(fmt.Errorf("%s: %w", resource, err))
	case resp.StatusCode == http.StatusGone, // the reflector lists everything again
		resp.StatusCode == http.StatusTooManyRequests: // it is asked again, and a full pass would ask for much more
	case resp.StatusCode >= http.StatusBadRequest:
		rt.tracker.requestFailed(fmt.Errorf("%s: %s", resource, resp.Status))
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		rt.tracker.watchOpened(resource)
		resp.Body = &watchBody{ReadCloser: resp.Body, closed: sync.OnceFunc(func() { rt.tracker.watchClosed(resource) })}
	}
	return resp, err
}

// watchBody is the body of a watch's response.
type watchBody struct {
	io.ReadCloser
	closed func()
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.closed()
	}
	return n, err
}

func (b *watchBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

func (t *watchTracker) requestFailed(err error) {
	t.mu.Lock()
	first := t.lastFailure == nil
	t.lastFailure = err
	t.failures++
	t.mu.Unlock()
	if first {
		t.onChange() // else whoever waits for an event would wait in vain
	}
}

func (t *watchTracker) watchOpened(resource string) {
	t.mu.Lock()
	t.open[resource]++
	t.opens++
	t.mu.Unlock()
	t.onChange()
}

func (t *watchTracker) watchClosed(resource string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[resource]--
}

// status returns why the caches may be out of date: a watch that is not open, or a
// failure since they were verified; nil for neither.
func (t *watchTracker) status(kinds []kind) error {
	t.mu.Lock()
	failed := t.lastFailure
	t.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("a request of the caches has failed: %w", failed)
	}
	return t.closedWatch(kinds)
}

// closedWatch names a watch that is not open; nil if all are.
func (t *watchTracker) closedWatch(kinds []kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kinds {
		if t.open[k.resource.Resource] <= 0 {
			return fmt.Errorf("the watch of %s is not open", k.resource.Resource)
		}
	}
	return nil
}

// counts are the failed requests and the opened watches so far.
func (t *watchTracker) counts() (failures, opens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures, t.opens
}

// clearFailure forgets a failure that was followed by a verification of the caches, if
// there was no other since there were so many.
func (t *watchTracker) clearFailure(failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == failures {
		t.lastFailure = nil
	}
}
