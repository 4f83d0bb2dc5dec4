package bench

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A Proxy between a program and the API server counts requests.
type Proxy struct {
	server *httptest.Server
	folder string
	mu     sync.Mutex
	counts Counts
}

// Counts are requests by verb and resource ("LIST pods"), and the bytes of the bodies in both directions, as on the
// wire.
type Counts struct {
	Requests map[string]int
	Bytes    int64
}

// Total is the number of all requests.
func (c Counts) Total() (n int) {
	for _, of := range c.Requests {
		n += of
	}
	return n
}

// NewProxy starts a proxy to the API server, as the admin.
func NewProxy(config *rest.Config) (*Proxy, error) {
	return newProxy(config, (*httptest.Server).Start)
}

// newTLSProxy is NewProxy for programs that take no kubeconfig: see inCluster.
func newTLSProxy(config *rest.Config) (*Proxy, error) {
	return newProxy(config, (*httptest.Server).StartTLS)
}

func newProxy(config *rest.Config, start func(*httptest.Server)) (*Proxy, error) {
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &Proxy{}
	p.reset()
	next := httputil.NewSingleHostReverseProxy(to)
	config = rest.CopyConfig(config)
	config.DisableCompression = true // what the program requests is passed on unchanged
	if next.Transport, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	next.FlushInterval = -1
	next.ModifyResponse = func(r *http.Response) error {
		r.Body = &counted{r.Body, p}
		return nil
	}
	if p.folder, err = os.MkdirTemp("", "bench-proxy"); err != nil {
		return nil, err
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.counts.Requests[kind(r)]++
		p.mu.Unlock()
		if r.Body != nil {
			r.Body = &counted{r.Body, p}
		}
		r.Header.Del("Authorization") // a token of its own would take precedence
		next.ServeHTTP(w, r)
	}))
	start(p.server)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bench"] = &clientcmdapi.Cluster{Server: p.server.URL}
	kubeconfig.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench"}
	kubeconfig.CurrentContext = "bench"
	return p, clientcmd.WriteToFile(*kubeconfig, p.Kubeconfig())
}

// Kubeconfig is the path of a kubeconfig that leads through the proxy.
func (p *Proxy) Kubeconfig() string { return filepath.Join(p.folder, "kubeconfig") }

// inCluster creates a root folder in which a program finds the proxy as a pod finds the API server, and returns its
// environment.
func (p *Proxy) inCluster(root string) (env []string, err error) {
	account := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(account, 0o755); err != nil {
		return nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	err1 := os.WriteFile(filepath.Join(account, "ca.crt"), ca, 0o644)
	err2 := os.WriteFile(filepath.Join(account, "token"), []byte("none is needed"), 0o644)
	at := p.server.Listener.Addr().(*net.TCPAddr)
	return []string{"KUBERNETES_SERVICE_HOST=" + at.IP.String(), fmt.Sprint("KUBERNETES_SERVICE_PORT=", at.Port)},
		errors.Join(err1, err2)
}

// Close ends the proxy and all requests through it.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
	os.RemoveAll(p.folder)
}

// Take returns the counts since the last call.
func (p *Proxy) Take() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.counts
	p.reset()
	return taken
}

func (p *Proxy) reset() { p.counts = Counts{Requests: map[string]int{}} }

// A counted body adds what is read to the proxy's bytes.
type counted struct {
	io.ReadCloser
	p *Proxy
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.p.mu.Lock()
	c.p.counts.Bytes += int64(n)
	c.p.mu.Unlock()
	return n, err
}

// kind is the verb and the resource of a request, in RBAC's terms.
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
