package servecmd

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
)

// A web page of somebody else may have a name that resolves to this machine: its requests have that name as Host.
func TestLoopbackOnly(t *testing.T) {
	hosts := map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8080": 200, "127.8.8.8": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:80": 200,
		"[::1]": 200, "": 403, "example.com": 403, "localhost.example.com": 403, "127.0.0.1.example.com:80": 403,
		"10.0.0.1": 403, "0.0.0.0": 403, "[::]": 403, "localhost:80:80": 403,
	}
	filter, err := loopbackFilter(nil, nil)
	check(t, err)
	all, err := filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	check(t, err)
	for host, code := range hosts {
		for _, path := range []string{"/ui/", "/metrics"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			if all.ServeHTTP(w, r); w.Code != code {
				t.Errorf("host %q, %s: code %d, want %d", host, path, w.Code, code)
			}
		}
	}
}
