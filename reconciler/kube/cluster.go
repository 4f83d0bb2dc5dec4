// Package kube is the live API as a source of observations and as a writer.
//
// A Cluster lists everything (observe.go, otherkinds.go, list.go), reads again what has
// changed (relist.go, live.go, reread.go), and writes (write.go) while it holds the Leases
// that whereabouts' ADD and DEL take (lease.go, renew.go). Its Fence holds the same Leases
// for longer, after a restore of etcd (fence.go, fencedlease.go). window.go keeps in
// annotations what must outlive the process; competing.go warns of reconcilers that
// compete; ping.go and watch.go are what the long-running form needs besides.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Settings are how the API is used.
type Settings struct {
	// Namespace is the reconciler's own: its pause annotation counts for everything.
	Namespace string
	// LeaseNamespace is that of the agents' Leases; Namespace if empty.
	LeaseNamespace string
	// Pod is the name of this process' own pod; "" outside a pod.
	Pod string
	// Timeout of one request; 30 s if zero. There is no limit over all: a pass
	// over a large cluster takes as long as it takes.
	Timeout time.Duration
	// Identity is the holder of whereabouts' Lease while it is held; no two
	// processes may have the same.
	Identity string
	// WithoutLease writes without whereabouts' Lease.
	WithoutLease bool
	// WithoutPause: where the reconciler's namespace may not be read, nothing counts as paused by it.
	WithoutPause bool
	// OnPage, where set, is called for each page of a LIST that was read, by several goroutines at once: a
	// large cluster takes minutes, in which nothing else shows that anything goes on.
	OnPage func()
	// OnDenied, where set, is called for each write that RBAC, a policy or a schema forbids, by several goroutines
	// at once.
	OnDenied func()
	// Jitter spreads pauses.
	Jitter func(time.Duration) time.Duration
	Log    *slog.Logger
}

// Cluster reads and writes through an API server.
type Cluster struct {
	Settings
	host     string
	core     kubernetes.Interface
	objects  dynamic.Interface
	metadata metadata.Interface
	client   rest.Interface                   // for LISTs, whose pages are decoded here
	custom   rest.Interface                   // for single custom resources, which are too
	pings    typedcoordinationv1.LeasesGetter // over a connection of its own
	dials    atomic.Int64                     // how often that was opened
	noGet    atomic.Bool                      // no right to get pods, so they are listed by name
	lastDate atomic.Pointer[serverDate]       // the Date of its last answer
	fence    *Fence

	mu           sync.Mutex
	notBefore    map[string]time.Time   // until when a Lease is left to others
	foreignHolds map[string]foreignHold // who was seen holding a Lease, since when
}

// New makes a Cluster of its own client. config.QPS and config.Burst are its own.
func New(config *rest.Config, s Settings) (*Cluster, error) {
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	s.LeaseNamespace = cmp.Or(s.LeaseNamespace, s.Namespace)
	c := &Cluster{Settings: s, host: config.Host, notBefore: map[string]time.Time{}, foreignHolds: map[string]foreignHold{}}
	c.fence = &Fence{c: c}
	config = rest.CopyConfig(config)
	config.Timeout = s.Timeout
	config.DisableCompression = config.DisableCompression || onSameNetwork(config.Host)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return serverTime{next, c} })
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	if c.pings, err = c.leasesAlone(typed); err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	raw := rest.CopyConfig(config)
	raw.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // of a Status
	custom, err := rest.UnversionedRESTClientFor(raw)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	c.core, c.objects, c.metadata, c.client, c.custom = core, objects, meta, core.CoreV1().RESTClient(), custom
	return c, nil
}

// onSameNetwork reports whether the API server is on this machine, or that of the cluster
// in which this process is a pod: over such a network its answers arrive sooner than
// it can compress them.
func onSameNetwork(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	name := u.Hostname()
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.IsLoopback() || name != "" && name == os.Getenv("KUBERNETES_SERVICE_HOST")
}

// serverDate is a Date and when it arrived here.
type serverDate struct{ date, arrived time.Time }

// Now is the time by the API server's clock, a second less or more: the Date of
// its last answer and what has passed since, whatever becomes of our own clock.
func (c *Cluster) Now() time.Time {
	last := c.lastDate.Load()
	if last == nil {
		return time.Now()
	}
	return last.date.Add(time.Since(last.arrived))
}

// call makes one request, and makes it again where the failure
// is of a kind that passes.
func (c *Cluster) call(ctx context.Context, f func(context.Context) error) error {
	for try := 0; ; try++ {
		err := f(ctx)
		if err == nil || try == 3 || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(c.Jitter(200 * time.Millisecond << try)):
		}
	}
}

// isTransient reports whether an error may be gone at the next try. It is never taken
// for an answer.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// absent reports whether the API server answers that there is no such object. The 404
// of something in between, such as a load balancer without a server behind it, is
// no answer.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// serverTime records the Date of an answer: ages of what the API server wrote are
// counted by its own clock.
type serverTime struct {
	next http.RoundTripper
	c    *Cluster
}

type dateKey struct{}

func (s serverTime) RoundTrip(r *http.Request) (*http.Response, error) {
	if !maySend(r) {
		return nil, errNotSent
	}
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if t, perr := http.ParseTime(resp.Header.Get("Date")); perr == nil {
		s.c.lastDate.Store(&serverDate{t, time.Now()})
		if recorded, ok := r.Context().Value(dateKey{}).(*atomic.Pointer[time.Time]); ok {
			recorded.Store(&t)
		}
	}
	if err := checkAnswer(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// withDate makes requests record the API server's time; date returns the last that was
// recorded. It starts as this machine's time, for a server that sends none.
func withDate(ctx context.Context) (dated context.Context, date func() time.Time) {
	recorded := &atomic.Pointer[time.Time]{}
	now := time.Now()
	recorded.Store(&now)
	return context.WithValue(ctx, dateKey{}, recorded), func() time.Time { return *recorded.Load() }
}
