package informers

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"

	"k8s.io/client-go/rest"
)

// streams knows which watches are open, and whether a request of the caches has
// failed. A cache by itself does not tell: it serves what it has for as long as
// it cannot reach the API server.
type streams struct {
	moved func() // a watch has been opened, or the first failure since a check has come

	mu     sync.Mutex
	open   map[string]int // watches, by resource
	failed error          // the last failure since the caches were checked
	faults int            // failures so far
	opens  int            // watches opened so far
}

func newStreams(moved func()) *streams {
	return &streams{moved: moved, open: map[string]int{}}
}

// wrap makes the streams see all requests of a client.
func (s *streams) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tripper{s, next} })
}

type tripper struct {
	*streams
	next http.RoundTripper
}

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	resource := path.Base(r.URL.Path)
	switch {
	case err != nil && r.Context().Err() != nil: // we ended it
	case err != nil:
		t.fail(fmt.Errorf("%s: %w", resource, err))
	case resp.StatusCode == http.StatusGone, // all is listed again
		resp.StatusCode == http.StatusTooManyRequests: // it is asked again, and a full look would ask for much more
	case resp.StatusCode >= http.StatusBadRequest:
		t.fail(fmt.Errorf("%s: %s", resource, resp.Status))
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		t.begin(resource)
		resp.Body = &stream{ReadCloser: resp.Body, end: sync.OnceFunc(func() { t.end(resource) })}
	}
	return resp, err
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	end func()
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.end()
	}
	return n, err
}

func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

func (s *streams) fail(err error) {
	s.mu.Lock()
	first := s.failed == nil
	s.failed = err
	s.faults++
	s.mu.Unlock()
	if first {
		s.moved() // who waits for what the watches tell would wait in vain
	}
}

func (s *streams) begin(resource string) {
	s.mu.Lock()
	s.open[resource]++
	s.opens++
	s.mu.Unlock()
	s.moved()
}

func (s *streams) end(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[resource]--
}

// state says what stands against the caches: a watch that is not open, or a
// failure since they were checked.
func (s *streams) state(kinds []kind) error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("a request of the caches has failed: %w", failed)
	}
	return s.closed(kinds)
}

// closed says which watch is not open.
func (s *streams) closed(kinds []kind) error {
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
func (s *streams) counts() (faults, opens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults, s.opens
}

// forgive takes back a failure that was followed by a check of the caches, if
// there was no other since.
func (s *streams) forgive(faults int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == faults {
		s.failed = nil
	}
}
