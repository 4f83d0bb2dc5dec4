package kube

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// directTransport returns the transport to the API server without what adds credentials to requests.
func directTransport(c *Cluster, config *rest.Config) (direct http.RoundTripper, err error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		direct = serverTime{next, c}
		return direct
	})
	_, err = rest.TransportFor(config)
	return direct, err
}

// httpClient returns a client that sends only requests that may be sent. It asks when all else is done: after the rate
// limit, before each repetition, and when a plugin has returned credentials, which may take long.
func (c *Cluster) httpClient(may func(*http.Request) bool) (*http.Client, error) {
	config := rest.CopyConfig(c.ofObjects)
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return guard{next, may} }
	transport, err := rest.HTTPWrappersForConfig(config, c.direct)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: config.Timeout}, nil
}

// guard refuses requests that must not be sent.
type guard struct {
	next http.RoundTripper
	may  func(*http.Request) bool
}

// errNotSent is the error of a write outside a session, or of one that client-go was about to send too late, or to
// repeat after a 429.
var errNotSent = errors.New("not sent: the hold of whereabouts' Lease is over, or was not renewed")

// WrappedRoundTripper lets client-go cancel a request; without it client-go warns of each request that times out.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if !g.may(r) {
		return nil, errNotSent
	}
	return g.next.RoundTrip(r)
}

// isNoWrite reports whether a request writes neither pools nor reservations: the ordinary client sends no other.
func isNoWrite(r *http.Request) bool {
	return r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/apis/"+ippool.PoolResource.Group+"/")
}

// serverTime records the Date of each answer, since ages count by that clock.
type serverTime struct {
	next http.RoundTripper
	c    *Cluster
}

// WrappedRoundTripper lets client-go cancel a request.
func (s serverTime) WrappedRoundTripper() http.RoundTripper { return s.next }

func (s serverTime) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := s.next.RoundTrip(r)
	s.c.noteAnswer(r, sent, resp, err)
	if err != nil {
		return resp, err
	}
	s.c.recordDate(resp)
	if err := checkAnswer(resp); err != nil {
		return nil, err
	}
	return resp, nil
}
