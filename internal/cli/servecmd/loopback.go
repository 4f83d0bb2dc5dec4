package servecmd

import (
	"net"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// LoopbackOnly refuses requests that name another host than this machine, which a web page of somebody else may have
// resolved to its address. It is for what is on the loopback interface without authentication.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "this port answers for localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether the Host of a request is a name of this machine. It may have any port, as kubectl
// port-forward uses.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// loopbackFilter is LoopbackOnly for all that a server of controller-runtime serves.
func loopbackFilter(*rest.Config, *http.Client) (server.Filter, error) {
	return func(_ logr.Logger, all http.Handler) (http.Handler, error) { return LoopbackOnly(all), nil }, nil
}
