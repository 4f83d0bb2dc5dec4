package informers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// watchTracker knows whether the caches of a session are reliable: which watches are open,
// and whether a request of the caches has failed. A cache by itself does not say: it serves
// what it has for as long as it cannot reach the API server.
type watchTracker struct {
	onChange func() // a watch has been opened, or the first request since a verification has failed

	mu          sync.Mutex
	open        map[string]int // watches, by resource
	soFar       events
	lastFailure error // since the caches were verified
	isVerified  bool  // they agreed with a quorum read
	compared    int   // how many watches had been opened when etcd's revision was compared last
}

// events are how many requests of the caches have failed, and how many watches were opened.
type events struct{ failures, opens int }

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
	t.soFar.failures++
	t.mu.Unlock()
	if first {
		t.onChange() // else whoever waits for an event would wait in vain
	}
}

func (t *watchTracker) watchOpened(resource string) {
	t.mu.Lock()
	t.open[resource]++
	t.soFar.opens++
	t.mu.Unlock()
	t.onChange()
}

func (t *watchTracker) watchClosed(resource string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[resource]--
}

// reliable returns why the caches may be out of date, nil if they are not: a failure since they
// were verified, a watch that is not open, or no verification.
func (t *watchTracker) reliable(kinds []kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastFailure != nil {
		return fmt.Errorf("a request of the caches has failed: %w", t.lastFailure)
	}
	for _, k := range kinds {
		if !t.isOpen(k) {
			return fmt.Errorf("the watch of %s is not open", k.resource.Resource)
		}
	}
	if !t.isVerified {
		return errors.New("they were not compared with a full pass yet")
	}
	return nil
}

// isOpen reports whether there is a watch of a kind. The caller holds mu.
func (t *watchTracker) isOpen(k kind) bool { return t.open[k.resource.Resource] > 0 }

// areOpenSince reports whether all kinds have been watched all the time since.
func (t *watchTracker) areOpenSince(before events, kinds []kind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.soFar.opens == before.opens && !slices.ContainsFunc(kinds, func(k kind) bool { return !t.isOpen(k) })
}

// events are those so far.
func (t *watchTracker) events() events {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.soFar
}

// setVerified takes note that the caches agreed with a quorum read that began after these events.
func (t *watchTracker) setVerified(before events) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isVerified, t.compared = true, before.opens
	if t.soFar.failures == before.failures {
		t.lastFailure = nil
	}
}

// invalidate has the caches count for nothing until they are verified again.
func (t *watchTracker) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isVerified = false
}

// compareOnce compares etcd's revision with what the watches have told, unless that was done since a watch was opened the
// last time: one that is resumed at a revision that a restored etcd has not reached yet is open and delivers nothing.
func (t *watchTracker) compareOnce(compare func() (why string, err error)) (why string, err error) {
	opens := t.events().opens
	t.mu.Lock()
	isCompared := t.compared == opens
	t.mu.Unlock()
	if isCompared {
		return "", nil
	}
	if why, err = compare(); err == nil && why == "" {
		t.mu.Lock()
		t.compared = opens
		t.mu.Unlock()
	}
	return why, err
}
