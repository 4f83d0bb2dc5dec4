package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// serving serves a page until the test ends.
func serving(t *testing.T, p *Page) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s
}

// open opens a stream, and returns its events.
func open(t *testing.T, s *httptest.Server) <-chan event {
	t.Helper()
	response, err := http.Get(s.URL + "/ui/events")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", response, err)
	}
	t.Cleanup(func() { response.Body.Close() })
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			var e event
			if text, isData := strings.CutPrefix(lines.Text(), "data: "); isData && json.Unmarshal([]byte(text), &e) == nil {
				events <- e
			}
		}
	}()
	return events
}

func next(t *testing.T, events <-chan event) event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
		return event{}
	}
}

func TestStream_ReportsEachChange(t *testing.T) {
	p := New(true, "Wait.")
	s := serving(t, p)
	events := open(t, s)
	if e := next(t, events); e.Problem != "Wait." || !e.Time.IsZero() {
		t.Errorf("at first: %+v", e)
	}
	if !p.IsWatched() {
		t.Error("the page is not watched")
	}
	p.Show(viewOf(At(Now.Add(time.Minute))))
	if e := next(t, events); e.Problem != "" || !e.Time.Equal(Now.Add(time.Minute)) {
		t.Errorf("after a pass: %+v", e)
	}
	p.Fail("It has failed.")
	if e := next(t, events); e.Problem != "It has failed." || !e.Time.Equal(Now.Add(time.Minute)) {
		t.Errorf("after a failure: %+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go p.Run(ctx)
	cancel()
	if _, isOpen := <-events; isOpen {
		t.Error("the stream goes on after its process has ended")
	}
}

// A reader that reads nothing keeps neither the others nor the process waiting, and is dropped.
func TestStream_FiftyReadersAndASlowOne(t *testing.T) {
	p := pageOf(viewOf())
	p.slowAfter = 200 * time.Millisecond
	s := serving(t, p)
	slow, err := net.Dial("tcp", s.Listener.Addr().String())
	check(t, err)
	defer slow.Close()
	fmt.Fprintf(slow, "GET /ui/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	var all []<-chan event
	for range 50 {
		all = append(all, open(t, s))
	}
	for _, events := range all {
		next(t, events)
	}
	start := time.Now()
	for i := range 1000 {
		p.Fail(strings.Repeat("x", 1000) + fmt.Sprint(i))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("1000 changes took %s", took)
	}
	for _, events := range all {
		for !strings.HasSuffix(next(t, events).Problem, "x999") {
		}
	}
	for end := time.Now().Add(20 * time.Second); p.streams.Load() > 50; {
		if time.Now().After(end) {
			t.Fatal("the slow reader is not dropped")
		}
		p.Fail(strings.Repeat("x", 1<<20)) // more than a connection buffers
		time.Sleep(10 * time.Millisecond)
	}
}

func TestStream_AtMostAHundred(t *testing.T) {
	p := pageOf(viewOf())
	s := serving(t, p)
	for range maxStreams {
		open(t, s)
	}
	response, err := http.Get(s.URL + "/ui/events")
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Fatalf("the stream after %d: %v %v", maxStreams, response, err)
	}
	response.Body.Close()
}
