package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch is one open watch. Its events wait until the client reads them.
type watch struct {
	q       *request
	closed  chan struct{}
	end     func()
	arrived chan struct{} // of capacity 1

	mu      sync.Mutex
	pending bytes.Buffer
	late    []change // see stallPods
}

// watch opens a watch from the requested revision, which may begin with all objects (sendInitialEvents).
func (s *apiServer) watch(q *request) answer {
	from, _ := strconv.ParseUint(q.query.Get("resourceVersion"), 10, 64)
	if from > s.revision && q.query.Get("sendInitialEvents") != "true" {
		// kube-apiserver waits for a future revision, and then answers so
		return failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
	}
	if from > 0 && len(s.changes) > 0 && from+1 < s.changes[0].revision && q.query.Get("sendInitialEvents") != "true" {
		return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	}
	w := &watch{q: q, closed: make(chan struct{}), arrived: make(chan struct{}, 1)}
	w.end = sync.OnceFunc(func() { close(w.closed) })
	if q.query.Get("sendInitialEvents") == "true" {
		for _, k := range listOf(s.objects, q.resource, q.namespace, q.query.Get("name")) {
			w.send("ADDED", s.objects[k])
		}
		apiVersion, kind := q.kind()
		w.write(fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{`+
			`"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, apiVersion, s.revision))
	} else {
		for _, c := range s.changes {
			if c.revision > from && w.matches(c.key) {
				w.send(c.kind, c.object)
			}
		}
	}
	s.watches = append(s.watches, w)
	return answer{status: http.StatusOK, watch: w}
}

func (w *watch) matches(k key) bool {
	name := w.q.query.Get("name")
	return k.resource == w.q.resource && (w.q.namespace == "" || k.namespace == w.q.namespace) &&
		(name == "" || k.name == name)
}

func (w *watch) send(kind string, o *object) {
	w.write(`{"type":"` + kind + `","object":` + string(w.q.shown(o)) + "}\n")
}

func (w *watch) write(text string) {
	w.mu.Lock()
	w.pending.WriteString(text)
	w.mu.Unlock()
	wake(w.arrived)
}

// publish sends a change to the watches that select it.
func (s *apiServer) publish(c change) {
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool {
		select {
		case <-w.closed:
			return true
		default:
		}
		switch {
		case !w.matches(c.key):
		case s.stalled && c.resource == pods:
			w.late = append(w.late, c)
		default:
			w.send(c.kind, c.object)
		}
		return false
	})
}

// stallPods makes the watches of pods stand still, as a connection does that hangs, or go on. Other watches do.
func (s *apiServer) stallPods(stalled bool) {
	s.stalled = stalled
	for _, w := range s.watches {
		for _, c := range w.late {
			w.send(c.kind, c.object)
		}
		w.late = nil
	}
}

// startUnseen creates a pod, unless it exists, while the watches of pods stand still.
func (s *Simulation) startUnseen(p *podName, n *node) {
	s.api.stallPods(true)
	s.say("the watches of pods stand still")
	s.makePod(p, n)
	s.after(2*time.Minute, func() { s.api.stallPods(false) })
}

// cutWatches ends all watches, as a restart of the server does, or those of one client.
func (s *apiServer) cutWatches(by string) {
	s.cut(func(q *request) bool { return by == "" || q.by == by })
}

// cut ends the watches of some requests.
func (s *apiServer) cut(which func(*request) bool) {
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
