package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// kubeconfigOf is a kubeconfig file for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: lab,
  contexts: [{name: lab, context: {cluster: lab, user: me}}, {name: production, context: {cluster: lab, user: me}}],
  clusters: [{name: lab, cluster: {server: %q}}], users: [{name: me, user: {token: secret}}]}`, server))
	return path
}

// serving is a server that gives the same answer to all.
func serving(t *testing.T, code int, kind, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// withoutWhereabouts is an API server that has nothing, and does not know whereabouts' kinds.
func withoutWhereabouts(t *testing.T) *httptest.Server {
	t.Helper()
	server := &fakeapi.Client{Server: fakeapi.NewServer()}
	server.NotServed = map[string]bool{"whereabouts.cni.cncf.io": true, "k8s.cni.cncf.io": true, "ip-reconcile.dev": true}
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	return s
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`,
		reason, code)
}

// nobody is an address on which nobody listens.
const nobody = "127.0.0.1:1"

func TestErrors_OfTheAPIServer(t *testing.T) {
	t.Parallel()
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	for _, c := range []struct {
		name   string
		server string
		want   []string
	}{
		{"an expired token", serving(t, 401, "application/json", status(401, "Unauthorized")).URL,
			[]string{"does not accept the credentials", "log in again"}},
		{"no rights", serving(t, 403, "application/json", status(403, "Forbidden")).URL,
			[]string{"cannot list", "forbidden", "grant"}},
		{"no CRD", withoutWhereabouts(t).URL, []string{"does not serve ippools.whereabouts.cni.cncf.io", "not installed",
			"--context"}},
		{"no API server", serving(t, 404, "text/plain", "404 page not found\n").URL,
			[]string{"does not answer as an API server", "--context"}},
		{"an unknown authority", stranger.URL, []string{"is not trusted", "authority", "--certificate-authority"}},
		{"nobody there", "https://" + nobody, []string{"is unreachable", "connection refused", "--context"}},
		{"no such host", "https://api.invalid", []string{"is unreachable", "api.invalid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, []string{"check", "--kubeconfig", kubeconfigOf(t, c.server)}, c.want)
		})
	}
	t.Run("no answer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		t.Cleanup(func() { l.Close() })
		refused(t, []string{"check", "--request-timeout", "100ms", "--kubeconfig",
			kubeconfigOf(t, "https://"+l.Addr().String())}, []string{"is unreachable", l.Addr().String()})
	})
}

func TestErrors_WebPageInsteadOfAnAPIServer(t *testing.T) {
	const page = "<!DOCTYPE html><html><head><style>b{}</style><title>Sign in to Corp SSO</title></head><body>Please " +
		"enter</body></html>"
	login := serving(t, 200, "text/html; charset=utf-8", page)
	redirect := httptest.NewServer(http.RedirectHandler(login.URL+"/login", http.StatusFound))
	t.Cleanup(redirect.Close)
	for name, server := range map[string]*httptest.Server{
		"a login page": login, "a redirect to one": redirect,
		"one with 403": serving(t, 403, "text/html", page),
	} {
		host := server.Listener.Addr().String()
		if server == redirect {
			host = login.Listener.Addr().String()
		}
		t.Run(name, func(t *testing.T) {
			refused(t, []string{"check", "--kubeconfig", kubeconfigOf(t, server.URL)},
				[]string{host, "does not answer as an API server", "proxy"})
		})
	}
}
