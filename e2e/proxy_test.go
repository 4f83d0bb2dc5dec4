package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A proxy stands between the product and the API server, to let things happen
// at a certain moment of a run.
type proxy struct {
	// before is asked before a request is passed on; one for which it returns
	// a status is not passed on, and answered so.
	before func(r *http.Request) (status int)
	// after is told when the API server has answered, before the product is.
	after    func(r *http.Request)
	requests atomic.Int64
}

// start returns a kubeconfig that leads through the proxy, as the admin.
func (p *proxy) start(t *testing.T, s *stage) (kubeconfig string) {
	t.Helper()
	to := s.reverseProxy(t)
	to.ModifyResponse = func(r *http.Response) error {
		if p.after != nil {
			p.after(r.Request)
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		if p.before != nil {
			if status := p.before(r); status != 0 {
				http.Error(w, "the proxy of the test says so", status)
				return
			}
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return plainKubeconfig(t, server.URL)
}

// reverseProxy passes requests on to the API server, as the admin.
func (s *stage) reverseProxy(t testing.TB) *httputil.ReverseProxy {
	to := httputil.NewSingleHostReverseProxy(try(url.Parse(s.Config().Host)).must(t))
	to.Transport = try(rest.TransportFor(s.Config())).must(t)
	return to
}

// plainKubeconfig writes a kubeconfig for a server that asks for nothing.
func plainKubeconfig(t testing.TB, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e"}
	config.CurrentContext = "e2e"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}
