package e2e

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A link is a proxy between a server and the API server whose faults change while it is used: it refuses or delays
// requests, and cuts or holds open watches.
type link struct {
	mu      sync.Mutex
	faults  faults
	freed   chan struct{} // closed when the faults change
	watches map[*context.CancelFunc]*http.Request
	hits    int         // requests that met a fault
	writes  []time.Time // of pools and reservations, when they were passed on
}

// faults are what happens to requests; a nil func lets all through.
type faults struct {
	// refuse returns the status of the answer; 0 passes the request on.
	refuse func(r *http.Request) int
	// delay is how much longer an answer takes.
	delay func(r *http.Request) time.Duration
	// hold reports which watches deliver nothing more and stay open.
	hold func(r *http.Request) bool
	// answered is called when the API server has answered, before the product gets the answer.
	answered func(r *http.Request)
	// edit changes an answer.
	edit func(r *http.Response) error
}

// link starts a link, as the admin, and returns it with a kubeconfig that leads through it.
func (s *stage) link(t testing.TB) (l *link, kubeconfig string) {
	t.Helper()
	return linkAs(t, s.Config())
}

// linkAs is link as another account.
func linkAs(t testing.TB, account *rest.Config) (l *link, kubeconfig string) {
	t.Helper()
	l = &link{freed: make(chan struct{}), watches: map[*context.CancelFunc]*http.Request{}}
	to := proxyTo(t, account)
	to.ModifyResponse = func(r *http.Response) error {
		l.mu.Lock()
		f := l.faults
		l.mu.Unlock()
		if f.answered != nil {
			f.answered(r.Request)
		}
		if f.edit != nil {
			return f.edit(r)
		}
		return nil
	}
	return l, through(t, l.handler(to))
}

// onRequest is a kubeconfig that leads through a link which calls happens at each request.
func (s *stage) onRequest(t testing.TB, happens func(r *http.Request)) (kubeconfig string) {
	t.Helper()
	l, kubeconfig := s.link(t)
	l.suffers(faults{refuse: func(r *http.Request) int { happens(r); return 0 }})
	return kubeconfig
}

func (l *link) handler(to http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cut := context.WithCancel(r.Context())
		defer cut()
		l.mu.Lock()
		f := l.faults
		l.mu.Unlock()
		if f.delay != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(f.delay(r)):
			}
		}
		if f.refuse != nil {
			if status := f.refuse(r); status != 0 {
				l.mu.Lock()
				l.hits++
				l.mu.Unlock()
				http.Error(w, "the link of the test says so", status)
				return
			}
		}
		l.mu.Lock()
		if r.Method != http.MethodGet && (strings.Contains(r.URL.Path, "/ippools/") || strings.Contains(r.URL.Path,
			"/overlappingrangeipreservations/")) {
			l.writes = append(l.writes, time.Now())
		}
		if anyWatch(r) {
			l.watches[&cut] = r
			w = &held{ResponseWriter: w, link: l, request: r, ctx: ctx}
		}
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			delete(l.watches, &cut)
			l.mu.Unlock()
		}()
		to.ServeHTTP(w, r.WithContext(ctx))
	}
}

// held writes nothing while its watch is held.
type held struct {
	http.ResponseWriter
	link    *link
	request *http.Request
	ctx     context.Context
}

func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *held) Write(p []byte) (int, error) {
	for {
		h.link.mu.Lock()
		hold, freed := h.link.faults.hold, h.link.freed
		h.link.mu.Unlock()
		if hold == nil || !hold(h.request) {
			return h.ResponseWriter.Write(p)
		}
		select {
		case <-h.ctx.Done():
			return 0, h.ctx.Err()
		case <-freed:
		}
	}
}

// suffers replaces the faults.
func (l *link) suffers(f faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
	close(l.freed)
	l.freed = make(chan struct{})
}

// cut closes the watches that are open and returns how many.
func (l *link) cut(which func(*http.Request) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cut, r := range l.watches {
		if which(r) {
			(*cut)()
			n++
		}
	}
	return n
}

// open is how many watches are open.
func (l *link) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watches)
}

// met waits until this many requests have met a fault.
func (l *link) met(t testing.TB, least int) {
	t.Helper()
	eventuallyWithin(t, 3*time.Minute, "requests to meet the fault", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.hits >= least
	})
}

// written are the times of the writes so far.
func (l *link) written() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

func anyWatch(r *http.Request) bool {
	w := r.URL.Query().Get("watch")
	return w == "1" || w == "true"
}

// watchOf are the watches of resources.
func watchOf(resources ...string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return anyWatch(r) && slices.Contains(resources, path.Base(r.URL.Path)) }
}

// everything is refused with a status.
func everything(status int) faults {
	return faults{refuse: func(*http.Request) int { return status }}
}

// just refuses some requests with a status.
func just(status int, which func(*http.Request) bool) faults {
	return faults{refuse: func(r *http.Request) int {
		if which(r) {
			return status
		}
		return 0
	}}
}

// madeRequests are the requests so far, as "METHOD path?query".
type madeRequests struct {
	mu  sync.Mutex
	all []string
}

// count counts the requests that contain all parts.
func (k *madeRequests) count(parts ...string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.all {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(r, part) }) {
			n++
		}
	}
	return n
}

// counted is a kubeconfig that leads through a link that records requests.
func (s *stage) counted(t testing.TB) (kubeconfig string, k *madeRequests) {
	t.Helper()
	k = &madeRequests{}
	return s.onRequest(t, func(r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.all = append(k.all, r.Method+" "+r.URL.String())
	}), k
}

// reverseProxy passes requests on to the API server, as the admin.
func (s *stage) reverseProxy(t testing.TB) *httputil.ReverseProxy {
	return proxyTo(t, s.Config())
}

func proxyTo(t testing.TB, config *rest.Config) *httputil.ReverseProxy {
	to := httputil.NewSingleHostReverseProxy(try(url.Parse(config.Host)).must(t))
	to.Transport, to.ErrorLog = try(rest.TransportFor(config)).must(t), quiet // what is cut is cut on purpose
	return to
}

var quiet = log.New(io.Discard, "", 0)

// through starts a proxy for the product, and writes a kubeconfig that leads through it. Requests in progress end with
// the test.
func through(t testing.TB, handler http.Handler) (kubeconfig string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	open, end := context.WithCancel(context.Background())
	server.Config.ErrorLog, server.Config.BaseContext = quiet, func(net.Listener) context.Context { return open }
	server.Start()
	t.Cleanup(func() { end(); server.CloseClientConnections(); server.Close() })
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: server.URL} // which asks for no credentials
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e"}
	config.CurrentContext = "e2e"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}
