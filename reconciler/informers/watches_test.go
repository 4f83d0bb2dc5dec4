package informers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func status(code int) answers {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader("an event"))}, nil
	}
}

// asks makes a request of the caches.
func asks(ctx context.Context, t *testing.T, s *watchTracker, query string, a answers) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/api/v1/pods"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, _ := roundTripper{s, a}.RoundTrip(r)
	return resp
}

var podsAlone = []kind{kindOf("pods")}

func TestAWatchIsOpenUntilItsStreamEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(resp *http.Response){
		"by the server": func(resp *http.Response) { _, _ = io.ReadAll(resp.Body) },
		"by us":         func(resp *http.Response) { resp.Body.Close() },
		"by both":       func(resp *http.Response) { _, _ = io.ReadAll(resp.Body); resp.Body.Close() },
	} {
		s := newWatchTracker(func() {})
		s.setVerified(events{})
		if s.reliable(podsAlone) == nil {
			t.Error("one that was never opened is open")
		}
		resp := asks(t.Context(), t, s, "?watch=true", status(http.StatusOK))
		if err := s.reliable(podsAlone); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		end(resp)
		if s.reliable(podsAlone) == nil {
			t.Errorf("one that was ended %s is open", name)
		}
		again := asks(t.Context(), t, s, "?watch=1", status(http.StatusOK))
		if err := s.reliable(podsAlone); err != nil {
			t.Errorf("%s, and opened again: %v", name, err)
		}
		again.Body.Close()
		equal(t, "events", s.events(), events{opens: 2})
	}
}

func TestWhatCountsAsAFailure(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	ended, end := context.WithCancel(t.Context())
	end()
	for name, tt := range map[string]struct {
		ctx context.Context
		answers
		want int
	}{
		"no answer":                 {t.Context(), func(*http.Request) (*http.Response, error) { return nil, refused }, 1},
		"no answer, which we ended": {ended, func(*http.Request) (*http.Response, error) { return nil, refused }, 0},
		"a 403":                     {t.Context(), status(http.StatusForbidden), 1},
		"a 404":                     {t.Context(), status(http.StatusNotFound), 1},
		"a 429":                     {t.Context(), status(http.StatusTooManyRequests), 0},
		"a 500":                     {t.Context(), status(http.StatusInternalServerError), 1},
		"a 410":                     {t.Context(), status(http.StatusGone), 0},
		"a 200":                     {t.Context(), status(http.StatusOK), 0},
	} {
		for _, query := range []string{"", "?watch=true"} {
			s := newWatchTracker(func() {})
			asks(tt.ctx, t, s, query, tt.answers)
			equal(t, name+query, s.events().failures, tt.want)
		}
	}
}

func TestAFailureIsForgivenByACheckThatBeganAfterIt(t *testing.T) {
	t.Parallel()
	changes := 0
	s := newWatchTracker(func() { changes++ })
	s.watchOpened("pods")
	equal(t, "changes by a watch that was opened", changes, 1)
	s.requestFailed(errors.New("one"))
	equal(t, "changes by a failure", changes, 2)
	before := s.events()
	s.requestFailed(errors.New("two"))
	equal(t, "changes by the second", changes, 2)
	s.setVerified(before)
	if s.reliable(podsAlone) == nil {
		t.Error("a check from before the second failure forgave it")
	}
	before = s.events()
	s.setVerified(before)
	if err := s.reliable(podsAlone); err != nil {
		t.Errorf("not forgiven: %v", err)
	}
	s.requestFailed(errors.New("three"))
	equal(t, "changes by the first failure since the check", changes, 3)
}
