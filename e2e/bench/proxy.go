package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A Proxy stands between a program and the API server. It counts, and may slow down.
type Proxy struct {
	Delay time.Duration // before each request is passed on

	server *httptest.Server
	folder string
	mu     sync.Mutex
	counts Counts
}

// Counts are of requests by verb and resource ("LIST pods").
type Counts map[string]int

// Total is the number of all requests.
func (c Counts) Total() (n int) {
	for _, of := range c {
		n += of
	}
	return n
}

// NewProxy starts one to the API server, as the admin.
func NewProxy(config *rest.Config, delay time.Duration) (*Proxy, error) {
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Delay: delay}
	p.reset()
	next := httputil.NewSingleHostReverseProxy(to)
	config = rest.CopyConfig(config)
	config.DisableCompression = true // what the program asks for is passed on as it is
	if next.Transport, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	next.FlushInterval = -1
	if p.folder, err = os.MkdirTemp("", "bench-proxy"); err != nil {
		return nil, err
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.counts[kind(r)]++
		p.mu.Unlock()
		r.Header.Del("Authorization") // a token of its own would go before the admin's
		time.Sleep(p.Delay)
		next.ServeHTTP(w, r)
	}))
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bench"] = &clientcmdapi.Cluster{Server: p.server.URL}
	kubeconfig.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench"}
	kubeconfig.CurrentContext = "bench"
	return p, clientcmd.WriteToFile(*kubeconfig, p.Kubeconfig())
}

// Kubeconfig leads through the proxy.
func (p *Proxy) Kubeconfig() string { return filepath.Join(p.folder, "kubeconfig") }

// Close ends it, and all requests that it passes on.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
	os.RemoveAll(p.folder)
}

// Take returns what was counted since the last time.
func (p *Proxy) Take() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.counts
	p.reset()
	return taken
}

func (p *Proxy) reset() { p.counts = Counts{} }

// kind is the verb and the resource of a request, as RBAC knows them.
func kind(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return r.Method + " " + r.URL.Path
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	verb := r.Method
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Has("watch"):
		verb = "WATCH"
	case r.Method == http.MethodGet && len(parts) == 1:
		verb = "LIST"
	}
	return fmt.Sprint(verb, " ", parts[0])
}
