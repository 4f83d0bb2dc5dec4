package fakeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch is one open watch. Its events wait until the client reads them.
type watch struct {
	q       *Request
	closed  chan struct{}
	end     func()
	arrived chan struct{} // of capacity 1

	mu      sync.Mutex
	pending bytes.Buffer
	late    []Change // see Stall
}

// watch opens a watch from the requested revision, which may begin with all objects (sendInitialEvents).
func (s *Server) watch(q *Request) Answer {
	from, _ := strconv.ParseUint(q.Query.Get("resourceVersion"), 10, 64)
	if from > s.Revision && q.Query.Get("sendInitialEvents") != "true" {
		// kube-apiserver waits for a future revision, and then answers so
		return Failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
	}
	if from > 0 && len(s.changes) > 0 && from+1 < s.changes[0].revision && q.Query.Get("sendInitialEvents") != "true" {
		return Failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	}
	w := &watch{q: q, closed: make(chan struct{}), arrived: make(chan struct{}, 1)}
	w.end = sync.OnceFunc(func() { close(w.closed) })
	if q.Query.Get("sendInitialEvents") == "true" {
		for _, k := range ListOf(s.Objects, q.Resource, q.Namespace, q.Query.Get("name")) {
			w.send("ADDED", s.Objects[k])
		}
		apiVersion, kind := q.kind()
		w.write(fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{`+
			`"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, apiVersion, s.Revision))
	} else {
		for _, c := range s.changes {
			if c.revision > from && w.matches(c.Key) {
				w.send(c.Kind, c.Object)
			}
		}
	}
	s.watches = append(s.watches, w)
	return Answer{Status: http.StatusOK, watch: w}
}

func (w *watch) matches(k Key) bool {
	name := w.q.Query.Get("name")
	return k.Resource == w.q.Resource && (w.q.Namespace == "" || k.Namespace == w.q.Namespace) &&
		(name == "" || k.Name == name)
}

func (w *watch) send(kind string, o *Object) {
	w.write(`{"type":"` + kind + `","object":` + string(w.q.shown(o)) + "}\n")
}

func (w *watch) write(text string) {
	w.mu.Lock()
	w.pending.WriteString(text)
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// Publish sends a change to the watches that select it.
func (s *Server) Publish(c Change) {
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool {
		select {
		case <-w.closed:
			return true
		default:
		}
		switch {
		case !w.matches(c.Key):
		case s.stalled == c.Resource:
			w.late = append(w.late, c)
		default:
			w.send(c.Kind, c.Object)
		}
		return false
	})
}

// Stall makes the watches of a resource stand still, as a connection does that hangs, and lets others go on; ""
// for none.
func (s *Server) Stall(resource string) {
	s.stalled = resource
	for _, w := range s.watches {
		for _, c := range w.late {
			w.send(c.Kind, c.Object)
		}
		w.late = nil
	}
}

// CutWatches ends all watches, as a restart of the server does, or those of one client.
func (s *Server) CutWatches(by string) {
	s.Cut(func(q *Request) bool { return by == "" || q.by == by })
}

// Cut ends the watches of some requests.
func (s *Server) Cut(which func(*Request) bool) {
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool {
		isCut := which(w.q)
		if isCut {
			w.end()
		}
		return isCut
	})
}

// body is the stream as the client reads it.
func (w *watch) body(ctx context.Context) io.ReadCloser { return &stream{watch: w, ctx: ctx} }

type stream struct {
	*watch
	ctx context.Context
}

func (r *stream) Read(p []byte) (int, error) {
	for {
		r.mu.Lock()
		n, _ := r.pending.Read(p)
		r.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-r.arrived:
		case <-r.closed:
			return 0, io.EOF
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

func (r *stream) Close() error {
	r.end()
	return nil
}
