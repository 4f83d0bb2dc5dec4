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
	onChange func() // a watch has been opened, or the first failure since a check has come

	mu          sync.Mutex
	open        map[string]int // watches, by resource
	lastFailure error          // the last failure since the caches were checked
	failures    int            // failures so far
	opens       int            // watches opened so far
}

func newWatchTracker(moved func()) *watchTracker {
	return &watchTracker{onChange: moved, open: map[string]int{}}
}

// wrap makes the streams see all requests of a client.
func (s *watchTracker) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tripper{s, next} })
}

type tripper struct {
	*watchTracker
	next http.RoundTripper
}

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	resource := path.Base(r.URL.Path)
	switch {
	case err != nil && r.Context().Err() != nil: // we ended it
	case err != nil:
		t.requestFailed(fmt.Errorf("%s: %w", resource, err))
	case resp.StatusCode == http.StatusGone, // all is listed again
		resp.StatusCode == http.StatusTooManyRequests: // it is asked again, and a full look would ask for much more
	case resp.StatusCode >= http.StatusBadRequest:
		t.requestFailed(fmt.Errorf("%s: %s", resource, resp.Status))
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		t.watchOpened(resource)
		resp.Body = &watchBody{ReadCloser: resp.Body, closed: sync.OnceFunc(func() { t.watchClosed(resource) })}
	}
	return resp, err
}

// watchBody is the body of a watch.
type watchBody struct {
	io.ReadCloser
	closed func()
}

func (s *watchBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.closed()
	}
	return n, err
}

func (s *watchBody) Close() error {
	s.closed()
	return s.ReadCloser.Close()
}

func (s *watchTracker) requestFailed(err error) {
	s.mu.Lock()
	first := s.lastFailure == nil
	s.lastFailure = err
	s.failures++
	s.mu.Unlock()
	if first {
		s.onChange() // who waits for what the watches tell would wait in vain
	}
}

func (s *watchTracker) watchOpened(resource string) {
	s.mu.Lock()
	s.open[resource]++
	s.opens++
	s.mu.Unlock()
	s.onChange()
}

func (s *watchTracker) watchClosed(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[resource]--
}

// status says what stands against the caches: a watch that is not open, or a
// failure since they were checked.
func (s *watchTracker) status(kinds []kind) error {
	s.mu.Lock()
	failed := s.lastFailure
	s.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("a request of the caches has failed: %w", failed)
	}
	return s.closedWatch(kinds)
}

// closedWatch says which watch is not open.
func (s *watchTracker) closedWatch(kinds []kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kinds {
		if s.open[k.resource.Resource] <= 0 {
			return fmt.Errorf("the watch of %s is not open", k.resource.Resource)
		}
	}
	return nil
}

// counts are the failures and the opened watches so far.
func (s *watchTracker) counts() (faults, opens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures, s.opens
}

// clearFailure takes back a failure that was followed by a check of the caches, if
// there was no other since.
func (s *watchTracker) clearFailure(faults int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == faults {
		s.lastFailure = nil
	}
}
